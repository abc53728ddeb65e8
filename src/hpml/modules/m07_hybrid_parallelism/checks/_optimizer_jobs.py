"""Exercise zero1's jobs, drive and expected values: an optimizer's steps on served gradients.

A job is an optimizer class with its options, parameters in groups, and the mean gradients of each
step, which are the same on all ranks, as after an all-reduce. One job's class is `Served`: its
update needs a factor for each parameter, which a rank has to ask the parent for. So the parent
knows which rank updated which parameter, in which step.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import torch

from hpml.ranks import Reply, Server, ask

STEPS = 4
LATE = 2  # steps before the late group is added, and before the learning rate of group 0 changes
# Every other one is large: owners by turns would not have alike
SIZES = ((33, 10), (1,), (16, 20), (), (301,), (12, 3), (5, 4, 19), (17,), (41, 9), (40,))
DOUBLE = (3, 4, 7, 8)  # float64, others float32: owners by elements would not have alike
GROUPS = (0, 0, 0, 0, 1, 1, 1, 1, 2, 2)  # of each parameter; the last group comes late
# One parameter first, so that all ranks but one own nothing until the late group comes. It is small
# beside the late ones: who sends these twice, sends nearly twice the bytes.
ALONE = (1, 0, 1)
UNUSED = 4  # a parameter that has no gradient in some steps
UNUSED_IN = (1, 2)
NEVER = tuple(range(STEPS))  # in one job it has none in any step, and so no state
SERVED = "Served"
MOMENTS = ("step", "stepped")  # what a drive asks at each step

# What is there besides Adam and SGD with momentum, by the world size
MORE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("AdamW", {"lr": 0.02, "betas": [0.8, 0.95], "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.9, "momentum": 0.5}),
    ("Adagrad", {"lr": 0.05, "lr_decay": 0.1}),
    ("NAdam", {"lr": 0.01, "momentum_decay": 0.01}),
)


def groups_of(parameters: Sequence[torch.Tensor], job: dict[str, Any]) -> list[dict[str, Any]]:
    """The job's groups: a dict of `params` and options each, as optimizers take them."""
    numbers = job["groups"]
    groups = [
        {"params": [p for p, own in zip(parameters, numbers, strict=True) if own == group]}
        | dict(options)
        for group, options in enumerate(job["options"])
    ]
    for group in job["once"]:
        groups[group]["params"] = (p for p in groups[group]["params"])
    return groups


def late_group(job: dict[str, Any]) -> int | None:
    """The number of the group that is added later, if there is one."""
    return len(job["options"]) - 1 or None


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """The same for each rank: `jobs`, and the factors of the last one, which are served."""
    draw = torch.Generator().manual_seed(seed)

    def tensors() -> list[torch.Tensor]:
        return [
            torch.randn(size, generator=draw, dtype=torch.float64 if n in DOUBLE else torch.float32)
            for n, size in enumerate(SIZES)
        ]

    def job(
        name: str,
        defaults: dict[str, Any],
        options: list[dict[str, Any]],
        numbers: Sequence[int] = GROUPS,
        generator: bool = False,
        once: Sequence[int] = (),
        unused: Sequence[int] = UNUSED_IN,
    ) -> dict[str, Any]:
        count = len(numbers)
        gradients: list[list[Any]] = [tensors()[:count] for _ in range(STEPS)]
        for step in unused if count > UNUSED else ():
            gradients[step][UNUSED] = None
        return {
            "optimizer": name,
            "defaults": defaults,
            "groups": list(numbers),
            "options": options,
            "parameters": tensors()[:count],
            "gradients": gradients,
            "generator": generator,  # as model.parameters() is; else a list
            "once": list(once),  # groups whose params are a generator
            # What is written into param_groups: group, option, value. The first before the late
            # group is added, which has its own options or the defaults; the others after it.
            "written": [[0, "lr", 0.5 * defaults["lr"]], [1, "weight_decay", 0.3]],
        }

    more, defaults = MORE[world_size % len(MORE)]  # each answer meets all of them
    sgd = {"lr": 0.1, "momentum": 0.9, "nesterov": True}
    groups = [{}, {"lr": 0.03, "weight_decay": 0.2}, {"weight_decay": 0.05}]
    alike = [0] * len(SIZES)
    jobs = [
        job("Adam", {"lr": 0.01, "betas": [0.7, 0.9], "foreach": False}, [{}], alike),
        job("SGD", sgd, [{}], [0]),  # all ranks but one own nothing
        job(more, defaults, [{}], alike, generator=True, unused=NEVER),
        job("SGD", sgd, [{}, {"momentum": 0.5}], ALONE),
        job("Adam", {"lr": 0.02, "betas": [0.8, 0.99]}, groups, once=[1]),
        job(SERVED, {"lr": 0.1}, groups, generator=True),
    ]
    shape = len(jobs), STEPS, len(SIZES)
    factors = (0.5 + torch.rand(shape, generator=draw, dtype=torch.float64)).tolist()
    return [{"jobs": jobs, "factors": factors} for _ in range(world_size)]


class Served(torch.optim.Optimizer):
    """p <- p - lr · factor · (grad + weight_decay · p), with `factor(p)` anew at each update.

    `factor` is set before the first step.
    """

    factor: Callable[[torch.Tensor], float]

    def __init__(self, params: Any, lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                update = p.grad + group["weight_decay"] * p
                self.state[p]["last"] = update
                p.sub_(group["lr"] * type(self).factor(p) * update)


def run_job(
    job: dict[str, Any],
    made: Callable[[type, Any, dict[str, Any]], Any],
    factor: Callable[[int, int], float],
    moment: Callable[[str], Any],
) -> tuple[Any, dict[str, Any]]:
    """Take the job's steps; returns its optimizer, the parameters `after` each step, the `groups`
    that it has then, and the numbers of parameters whose gradient was `left` by zero_grad.

    `made(class, params, defaults)` makes the optimizer; `factor(step, number)` is the factor of a
    parameter; `moment(name)` is called before and after each of the optimizer's steps.
    """
    parameters = [torch.nn.Parameter(tensor.clone()) for tensor in job["parameters"]]
    now = 0  # the step

    class Own(Served):
        @staticmethod
        def factor(parameter: torch.Tensor) -> float:
            (number,) = (n for n, p in enumerate(parameters) if p is parameter)
            return factor(now, number)

    kind = Own if job["optimizer"] == SERVED else getattr(torch.optim, job["optimizer"])
    groups, late = groups_of(parameters, job), late_group(job)
    # One group is handed in as its parameters
    first: Iterable[Any] = groups[:late] if len(groups) > 2 else groups[0]["params"]
    optimizer = made(kind, (one for one in first) if job["generator"] else first, job["defaults"])
    after, left = [], set()
    for now, gradients in enumerate(job["gradients"]):
        if now == LATE and late:
            for group, option, value in job["written"][:1]:
                optimizer.param_groups[group][option] = value
            optimizer.add_param_group(groups[late])
            for group, option, value in job["written"][1:]:
                optimizer.param_groups[group][option] = value
        optimizer.zero_grad()
        left |= {n for n, p in enumerate(parameters) if p.grad is not None}
        absent = late if now < LATE else None  # it has no gradients before it is added
        for parameter, gradient, group in zip(parameters, gradients, job["groups"], strict=True):
            if gradient is not None and (absent is None or group != absent):
                parameter.grad = gradient.clone()
        moment("step")
        optimizer.step()
        moment("stepped")
        after.append([p.detach().clone() for p in parameters])
    held = [
        {**g, "params": [n for p in g["params"] for n, q in enumerate(parameters) if p is q]}
        for g in optimizer.param_groups
    ]
    return optimizer, {"after": after, "left": sorted(left), "groups": as_plain(held)}


def drive(answer: ModuleType, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """All jobs; returns for each what `run_job` found, and the gathered state."""
    found = []
    for job in inputs["jobs"]:
        optimizer, seen = run_job(
            job,
            lambda kind, params, defaults: answer.ZeroOptimizer(params, kind, **defaults),
            lambda step, number: ask(["factor", number]),
            ask,
        )
        ask("gather")
        found.append({**seen, "state": as_plain(optimizer.gathered_state_dict())})
        ask("gathered")
    return found


def as_plain(state: Any) -> Any:
    """A state dict with keys that can be sent: str in place of int. Other values stay."""
    if isinstance(state, dict):
        return {str(key): as_plain(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [as_plain(value) for value in state]
    return state.detach() if isinstance(state, torch.Tensor) else state


def moments(jobs: int) -> list[str]:
    """What a rank's drive asks for, besides factors, in this order."""
    return [*(MOMENTS * STEPS), "gather", "gathered"] * jobs


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """The stage's `serve`: the drive's moments in their order, and factors within a step."""
    jobs = ranks[0]["jobs"]
    script = moments(len(jobs))
    passed: Counter[int] = Counter()  # moments, by rank

    def reply(rank: int, request: Any) -> list[Reply]:
        if request == next(iter(script[passed[rank] :]), None):
            passed[rank] += 1
            return [Reply(rank)]
        job, place = divmod(passed[rank], len(MOMENTS) * STEPS + 2)
        step, inside = divmod(place, len(MOMENTS))
        is_factor = isinstance(request, list) and len(request) == 2 and request[0] == "factor"
        if not (is_factor and inside and step < STEPS and request[1] in range(len(SIZES))):
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        return [Reply(rank, ranks[rank]["factors"][job][step][request[1]])]

    return [{"jobs": rank["jobs"]} for rank in ranks], reply


def updates(asked: Iterable[Any]) -> list[tuple[int, int]]:
    """Which factors a rank asked for in the last job: step and parameter of each."""
    place, found = 0, []
    for one in asked:
        if one.refused:
            continue
        if isinstance(one.request, list):
            step = place % (len(MOMENTS) * STEPS + 2) // len(MOMENTS)
            found.append((step, one.request[1]))
        else:
            place += 1
    return found


def updated_in(step: int) -> list[int]:
    """The numbers of the parameters that the last job's step updates."""
    return [
        number
        for number, group in enumerate(GROUPS)
        if not (number == UNUSED and step in UNUSED_IN) and not (group == 2 and step < LATE)
    ]


def expect(given: list[dict[str, Any]], world_size: int) -> list[dict[str, Any]]:
    """What one process with the plain optimizer has: of each job what `drive` returns."""
    expected = []
    for number, job in enumerate(given[0]["jobs"]):
        factors = given[0]["factors"][number]
        optimizer, seen = run_job(
            job,
            lambda kind, params, defaults: kind(params, **defaults),
            lambda step, parameter, factors=factors: factors[step][parameter],
            lambda name: None,
        )
        expected.append({**seen, "state": as_plain(optimizer.state_dict())})
    return expected
