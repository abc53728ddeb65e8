"""Exercise memory_budget: what training a network takes, before it is trained.

`memory_budget(model, shape, optimizer)` has the bytes by kind, of a network that has shapes and no
memory; `largest_batch(model, sample, optimizer, memory)` the most samples that fit. Held against
them is what three fresh networks take, trained on a rank of the check's own: the blocks that
PyTorch's allocator handed out, and the tensors that existed.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hpml.answer import as_python
from hpml.answer.rules import ReadyMade
from hpml.checks.compare import described
from hpml.checks.contract import CannotJudge, Check, Claim, Picture, Problem, Run, Stage
from hpml.checks.kits.ready_made import ALL_ELSE, WALK
from hpml.modules.m02_hardware.checks._measured_networks import KINDS, ask_answer, measure, networks
from hpml.ranks import launch

WITHIN = 0.10  # of the measured peak
SMALL = 0.01  # of the activations: what batch normalisation keeps of each channel, and the like
PICTURED = 11  # a seed: nothing of the picture's networks is judged

TRAINING = ReadyMade("`backward`, `torch.autograd.grad`", WALK)
MEASURING = ReadyMade(
    "`saved_tensors_hooks`, a profiler, `MemTracker`",
    (
        "torch.autograd.graph.saved_tensors_hooks",
        "torch._C._autograd._push_saved_tensors_default_hooks",
        "torch._C._autograd._enable_profiler",
        "torch.profiler.profiler._KinetoProfile",
        "torch.autograd.profiler.profile",
        "torch.autograd.profiler_legacy.profile",
        "torch.distributed._tools.mem_tracker.MemTracker",
    ),
)

Figures = Mapping[str, Any]


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    given = {"networks": networks(seed)}
    return {"measured": [given], "answered": [given]}


def expect(inputs: Any, world_size: int) -> None:
    """Nothing is worked out: what is right was measured."""


def each(run: Run) -> Iterator[tuple[Mapping[str, Any], Figures, Any]]:
    """(network, what was measured, what the answer returned) of each network.

    None of a play with injected waits: nothing is measured there, and no message can be late.
    """
    if "measured" not in run.stages:
        return
    (measured,), (answered,) = run.stages["measured"].values, run.stages["answered"].values
    yield from zip(run.inputs["answered"][0]["networks"], measured, answered, strict=True)


def named(network: Mapping[str, Any], batch: int | None = None) -> str:
    shape = (batch or network["batch"], *network["sample"])
    return f"{network['name']}, shape {shape}, {network['optimizer']!r}"


def is_budget(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and sorted(value) == sorted(KINDS)
        and all(type(one) is int and 0 <= one < 10**15 for one in value.values())
    )


def no_budget(run: Run) -> Problem | None:
    """Why a value that the answer returned is not a budget."""
    for network, _, answered in each(run):
        value = answered["budget"]
        if not is_budget(value):
            seen = f"memory_budget of {named(network)} is {described(value)}"
            if isinstance(value, dict):
                of = ", ".join(f"{key!r}: {described(one)}" for key, one in value.items())
                seen = f"memory_budget of {named(network)} is a dict of {of or 'nothing'}"
            return Problem(seen[:300], "types")
    return None


# ---- what people count in place of each kind: hint, and figure


def mistakes(kind: str, network: Mapping[str, Any], of: Figures) -> Iterator[tuple[str, float]]:
    right, many = of[kind], {"sgd": 0, "momentum": 1, "adam": 2}[network["optimizer"]]
    if kind == "weights":
        yield "buffers", of["parameters"]
        yield "frozen_weights", of["gradients"]
        yield "frozen_weights", of["trained and buffers"]
        yield "four_bytes", of["weights in fours"]
    elif kind == "gradients":
        yield "no_gradients", 0
        yield "buffer_gradients", of["trained and buffers"]
        yield "frozen", of["parameters"]
        yield "buffer_gradients", of["weights"]
    elif kind == "optimizer states":
        yield "frozen", many * of["parameters"]
        yield "buffer_gradients", many * of["weights"]
        yield "buffer_gradients", many * of["trained and buffers"]
        for one in range(3):
            yield "moments", one * of["gradients"]
    else:
        yield from activation_mistakes(network, of)
    yield "four_bytes", right / 2 if network["dtype"] == "float64" else right


def activation_mistakes(network: Mapping[str, Any], of: Figures) -> Iterator[tuple[str, float]]:
    right, indices = of["activations"], of["indices"]
    yield "one_sample", right / network["batch"]
    yield "twice", 2 * right
    yield "last", of["last"]
    yield "all_trained", of["all trained"]
    yield "flatten", of["flatten copies"]
    for more in (0, indices):
        yield "outputs", of["outputs"] + more
        yield "outputs", of["outputs"] - of["batch"] + more
        yield "in_place", of["outputs"] - of["in place"] + more
        yield "in_place", right - of["in place"] - more
        yield "in_place", right - of["in place and kept"] - more
        yield "in_place", right + of["in place"] - more
        yield "batch_itself", right - of["batch"] - more
    yield "indices", right - indices
    yield "indices", right - indices / 2


def same(got: float, right: float, kind: str) -> bool:
    """Whether it is the figure: to the byte, but for activations."""
    return abs(got - right) <= (SMALL * right if kind == "activations" else 0)


def hint_for(kind: str, run: Run) -> str | None:
    """The hint for the first mistake that explains this kind of all networks."""
    explained: dict[str, int] = {}
    for network, measured, answered in each(run):
        got = answered["budget"][kind]
        found = {hint for hint, one in mistakes(kind, network, measured) if same(got, one, kind)}
        for hint, _ in mistakes(kind, network, measured):
            explained.setdefault(hint, 0)
        for hint in found:
            explained[hint] += 1
    every = len(run.inputs["answered"][0]["networks"])
    return next((hint for hint, count in explained.items() if count == every), None)


def kind_is(kind: str, usual: str) -> Callable[[Run], Problem | None]:
    """The judge of one kind, whose hint is `usual` where no mistake explains the figures."""

    def judge(run: Run) -> Problem | None:
        if problem := no_budget(run):
            return problem
        for network, measured, answered in each(run):
            got, right = answered["budget"][kind], measured[kind]
            if not same(got, right, kind):
                about = "about " if kind == "activations" else ""
                return Problem(
                    f"{kind} of {named(network)} are {got} bytes",
                    hint_for(kind, run) or usual,
                    f"{about}{right} bytes",
                )
        return None

    return judge


# ---- the peak, and the largest batch


def is_measured(of: Figures) -> bool:
    """Whether this machine's peak is made of the four kinds: a library may need more to work in."""
    return abs(sum(of[kind] for kind in KINDS) / of["peak"] - 1) <= WITHIN


def sum_is_the_peak(run: Run) -> Problem | CannotJudge | None:
    if problem := no_budget(run):
        return problem
    for network, measured, answered in each(run):
        if not is_measured(measured):
            return CannotJudge("here training needs much more memory than tensors have")
        got, peak = sum(answered["budget"].values()), measured["peak"]
        if abs(got / peak - 1) > WITHIN:
            return Problem(
                f"the four kinds of {named(network)} add up to {got} bytes, which is more than "
                f"{WITHIN:.0%} off the peak that was measured in training it",
                "peak",
                f"{peak} bytes",
            )
    return None


def peak_at(batch: int, network: Mapping[str, Any], of: Figures) -> float:
    """The peak with that batch, on the line through two measured ones."""
    return of["peak"] + (of["peak of twice"] - of["peak"]) * (batch / network["batch"] - 1)


def largest_fits(run: Run) -> Problem | CannotJudge | None:
    for network, measured, answered in each(run):
        fits = answered["fits"]
        if [one[0] for one in fits[:2]] != network["memory"]:
            raise ValueError("largest_batch was asked for other sizes of memory")  # not judged
        for memory, batch, at_it, at_one_more in fits:
            of = f"largest_batch of {network['name']}, {network['optimizer']!r}, for {memory} bytes"
            if type(batch) is not int or not 0 <= batch < 10**6:
                return Problem(f"{of} is {described(batch)}", "batch_type")
            budgets = [one for one in (at_it, at_one_more) if one is not None]
            if not all(map(is_budget, budgets)):
                return Problem(f"memory_budget of {network['name']} is not always one", "types")
            if not is_measured(measured):
                return CannotJudge("here training needs much more memory than tensors have")
            if memory < measured["weights"]:
                if batch:
                    return Problem(f"{of}, less than its weights alone, is {batch}", "none_fits")
                continue
            if at_it is not None and sum(at_it.values()) > memory:
                return Problem(
                    f"{of} is {batch}, and by your budget that takes {sum(at_it.values())} bytes",
                    "too_large",
                )
            if sum(at_one_more.values()) <= memory:
                of_one = not no_budget(run) and hint_for("activations", run) == "one_sample"
                return Problem(
                    f"{of} is {batch}, and by your budget {batch + 1} fit, in "
                    f"{sum(at_one_more.values())} bytes",
                    "one_sample" if of_one else "one_more",  # that budget never grows
                )
            if memory not in network["memory"]:
                continue  # a size of the answer's own: what was measured says nothing of it
            takes = peak_at(batch, network, measured)
            if abs(takes / memory - 1) > 1.5 * WITHIN:
                return Problem(
                    f"{of} is {batch}: by what was measured, its peak would not be near that",
                    "peak",
                    f"a peak of {memory} bytes, not {takes:.0f}",
                )
    return None


# ---- what the learner's own check shows


def picture(check: Check, source: str) -> Picture:
    """The answer's four kinds, and the peaks that were measured, of three networks of their own."""
    from hpml.trace.kinds_picture import kinds_picture  # with Matplotlib

    given = {"networks": networks(PICTURED)}
    measured = launch(measure, 1, inputs=[given], process_group=False)
    answered = launch(
        ask_answer,
        1,
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=[given],
        process_group=False,
    )
    (peaks,), (values,) = measured.values, answered.values
    names = [f"{one['name']}\n{one['optimizer']}" for one in given["networks"]]
    budgets = {name: value["budget"] for name, value in zip(names, values, strict=True)}
    if not all(map(is_budget, budgets.values())):
        raise ValueError("these are not budgets")
    at = {name: one["peak"] for name, one in zip(names, peaks, strict=True)}
    off = max(abs(sum(budgets[name].values()) / at[name] - 1) for name in names)
    title = f"Your budgets are within {off:.0%} of the peaks that were measured"
    figure = kinds_picture(budgets, at, title=title, line="peak, measured", at="MB")
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    # Of resident memory: in words it would be another text each time
    return Picture(
        image.getvalue(),
        "Your budgets, beside the peaks that were measured, of three networks that were drawn for "
        "this picture.",
    )


CHECK = Check(
    id="memory_budget",
    title="What will training take?",
    names=("memory_budget", "largest_batch"),
    to_write="the bytes of each kind, and the largest batch",
    allowed=ALL_ELSE,
    not_allowed=(TRAINING, MEASURING),
    worlds=(1,),
    process_group=False,
    picture=picture,
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("measured", measure, with_answer=False),
        Stage("answered", ask_answer),
    ),
    claims=(
        Claim("weights are all parameters and buffers", 1, kind_is("weights", "weights")),
        Claim("what is trained has gradients, nothing else", 2, kind_is("gradients", "gradients")),
        Claim("each optimizer has its states", 1, kind_is("optimizer states", "moments")),
        Claim("activations are what backward needs, each once", 3, kind_is("activations", "kept")),
        Claim("together they are the measured peak, within 10 %", 2, sum_is_the_peak),
        Claim("the largest batch fits, and one sample more does not", 1, largest_fits),
    ),
    hints={
        "start": "Which of the four kinds grow with the batch, and which do not? Count those that "
        "do not first: they need nothing but `model.parameters()` and `model.buffers()`.",
        "types": "Return a dict with the keys 'weights', 'gradients', 'optimizer states' and "
        "'activations', and a whole number of bytes for each.",
        "weights": "Weights are whatever the module holds: each parameter and each buffer, with "
        "its number of elements and its bytes per element.",
        "buffers": "Batch normalisation also has running means and variances. They are not "
        "parameters, but they take memory: `model.buffers()`.",
        "frozen_weights": "A frozen parameter is not trained, but it is there.",
        "four_bytes": "Not every number has 4 bytes. A tensor knows: `element_size()`, `nbytes`.",
        "gradients": "A gradient has the shape and dtype of its parameter. Which parameters get "
        "one?",
        "no_gradients": "backward writes a gradient for each trained parameter, and this training "
        "keeps them from step to step.",
        "buffer_gradients": "Buffers are not trained: running means have no gradient, and the "
        "optimizer keeps nothing for them.",
        "frozen": "What has `requires_grad=False` gets no gradient, and the optimizer has no state "
        "for it.",
        "moments": "Per trained parameter: plain SGD keeps nothing, momentum one tensor (the "
        "velocity), Adam two (the means of the gradient and of its square).",
        "kept": "Go through the layers with the table, and write each tensor down once. Which "
        "layers keep what comes in, which keep what goes out?",
        "one_sample": "Each sample of the batch goes through the network, and backward needs the "
        "activations of all of them.",
        "twice": "What one layer puts out is what the next takes in: one tensor, in memory once.",
        "last": "backward needs the tensors of all layers, not only of the last one: none is freed "
        "before backward has passed it.",
        "outputs": "Not every output is kept. After a convolution with batch normalisation: which "
        "layer's backward needs what batch normalisation puts out?",
        "in_place": "A ReLU keeps what it puts out, in place or not, and not what came in. The "
        "next layer may need the same tensor: write it down once. In place, it lies where the "
        "ReLU's input was.",
        "flatten": "Flatten makes no new memory: what it puts out is what came in, with another "
        "shape. Where the next layer keeps it, who else has written it down?",
        "indices": "Max pooling also keeps where each maximum was: an int64 for each element of "
        "its output, whatever the dtype.",
        "all_trained": "backward stops at the first trained layer. What do the frozen layers in "
        "front of it have to keep?",
        "batch_itself": "The batch counts, too: the first layer keeps it, and the program has it "
        "in any case.",
        "peak": "The peak is the sum of the four kinds: if they are right one by one, so is the "
        "sum, and with it the largest batch. Mend the kinds that are wrong above first.",
        "batch_type": "largest_batch returns an int: a number of samples, 0 where not even one "
        "fits.",
        "none_fits": "This memory is too small for the weights. Then no batch fits: return 0.",
        "too_large": "What does not grow with the batch is in the memory first. Only what is left "
        "is for activations.",
        "one_more": "More fits into this memory. Are weights, gradients and states counted once, "
        "and not for each sample? A batch that takes the memory to the last byte fits, and any "
        "whole number is a batch.",
        "raised": 'The model has no memory (`device="meta"`): shapes, dtypes and layers are '
        "there, and `layer(x)` works with an x on the same device and of the same dtype.",
    },
)
