"""Exercise gradient_hooks: each gradient travels as soon as backward has it, and no hook waits.

`hook_gradients(model) -> finish`. The moments of backward are known to the parent, which serves
factors to it (`_hooked_training.py`). That no hook waits is seen without a clock: one rank is held
up in its backward until all others have come to the end of theirs.
"""

from collections.abc import Sequence

import torch

from hpml.checks.compare import described, state_difference
from hpml.checks.contract import Check, Claim, Problem, Run, Stage
from hpml.checks.kits.ready_made import ALL_ELSE, DATA_PARALLEL
from hpml.modules.m04_frameworks.checks._hook_calls import (
    LATE,
    TIED,
    as_little_as_a_ring,
    leave_early,
    nobody_waits,
    travels_once,
)
from hpml.modules.m04_frameworks.checks._hooked_training import (
    APART,
    FINISHED,
    SIDES,
    STEPS,
    drive,
    expect,
    inputs,
    other_way_round,
    serve,
)
from hpml.modules.m04_frameworks.checks._hooks_picture import hooks_picture

TOLERANCE = 1e-9  # the model is float64: only the order of additions may differ

Gradients = dict[str, torch.Tensor]


def combined(ranks: Sequence[Gradients], factor: float) -> Gradients:
    """The sum over ranks, times `factor`."""
    return {name: factor * sum(rank[name] for rank in ranks) for name in ranks[0]}


def swapped(run: Run, rank: int, step: int) -> Gradients:
    """What a rank gets where each rank sends its gradients in the order in which they come."""
    own = [ranks[step] for ranks in run.expected]
    turned = [other_way_round(r, step) for r in range(run.world_size)]
    taken = []
    for other, gradients in enumerate(own):
        met = dict(gradients)
        if turned[other] != turned[rank]:
            for side, opposite in (SIDES, SIDES[::-1]):
                for part in ("weight", "bias"):
                    met[f"{side}.{part}"] = gradients[f"{opposite}.{part}"]
        taken.append(met)
    return combined(taken, 1 / run.world_size)


def wrong_in(run: Run, steps: range) -> Problem | None:
    """The first rank and step whose gradients are not the means; or None."""
    ranks = run.world_size
    for rank, value in enumerate(run.stages["train"].values):
        if not isinstance(value, list) or len(value) != STEPS:
            return Problem(f"rank {rank} brought back {described(value)}", "mean")
    for step in steps:
        own = [each[step] for each in run.expected]
        mean = combined(own, 1 / ranks)
        for rank, value in enumerate(run.stages["train"].values):
            if found := state_difference(value[step], mean, TOLERANCE):
                seen = f"after step {step + 1}, on rank {rank} of {ranks}, the gradient of {found}"
                return Problem(seen, hint(run, rank, step, mean), found.expected)
    return None


def hint(run: Run, rank: int, step: int, mean: Gradients) -> str:
    """The hint for the misconception that explains this rank's gradients of this step."""
    got = run.stages["train"].values[rank][step]
    own = [each[step] for each in run.expected]

    def like(other: Gradients) -> bool:
        return not state_difference(got, other, TOLERANCE)

    if not isinstance(got, dict):
        return "mean"
    if any(name.startswith("frozen.") for name in got):
        return "frozen"
    if in_flight(run, rank, step):
        return "lost"
    if like(combined(own, 1.0)):
        return "sum"
    if step >= APART and like(swapped(run, rank, step)):
        return "order"
    if step == 0:
        if like(combined(own, run.world_size**-2)):
            return "twice"
        if like(own[rank]):
            calls = run.stages["train"].ranks[rank].calls
            return "alone" if any(len(call.group) > 1 for call in calls) else "silent"
        others = {name: tensor for name, tensor in mean.items() if name != TIED}
        if not state_difference({n: t for n, t in got.items() if n != TIED}, others, TOLERANCE):
            return "tied"
        return "mean"
    return "kept" if step < APART else "mean"


def in_flight(run: Run, rank: int, step: int) -> bool:
    """Whether messages were on their way when finish returned in this step. For a hint only: it is
    the rank's own word."""
    evidence = run.stages["train"].ranks[rank]
    times = [mark.at for mark in evidence.marks if mark.name == FINISHED]
    if len(times) != STEPS:
        return False
    before = [call for call in evidence.calls if call.issued < times[step]]
    return any(call.finished is None or call.finished > times[step] for call in before)


def judge_mean(run: Run) -> Problem | None:
    return wrong_in(run, range(APART))


def judge_order(run: Run) -> Problem | None:
    return wrong_in(run, range(STEPS))


def arrived(run: Run) -> Problem | None:
    """What keeps messages from being the gradients' at all: a wrong divisor does not."""
    problem = judge_mean(run)
    return None if problem and problem.hint in ("sum", "twice", "kept") else problem


def judge_early(run: Run) -> Problem | None:
    return arrived(run) or leave_early(run)


def judge_waits(run: Run) -> Problem | None:
    return judge_early(run) or nobody_waits(run)


CHECK = Check(
    id="gradient_hooks",
    title="Gradients on their way during backward",
    names=("hook_gradients",),
    to_write="the hooks, and the function that waits for their messages",
    allowed=f"{ALL_ELSE}, hooks of autograd and collectives too",
    not_allowed=(DATA_PARALLEL,),
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("train", drive, link="100mbit", serve=serve),
        # With two ranks, since it says the same with more: one waits, or goes on.
        Stage(LATE, drive, world=lambda ranks: ranks if ranks == 2 else 0, dies=True, serve=serve),
    ),
    picture=hooks_picture,
    claims=(
        Claim("when finish returns, each gradient is the mean of all ranks'", 3, judge_mean),
        Claim("a tied weight travels once, a frozen one never", 1, travels_once, of_calls=True),
        Claim("no rank sends more than a ring needs", 1, as_little_as_a_ring),
        Claim("each gradient leaves while backward goes on", 3, judge_early, of_calls=True),
        Claim("no hook waits: backward goes on when a rank is late", 3, judge_waits, of_calls=True),
        Claim("the mean is right when ranks' orders differ", 2, judge_order),
    ),
    hints={
        "start": "First without an order: which parameters take a hook, what does the hook start, "
        "and what does finish need to know of it? Keep what it needs in a list.",
        "sum": "all_reduce adds up. Each rank's loss is a mean over its own share of the batch; "
        "the loss of the whole batch is the mean of those.",
        "twice": "A sum over the ranks, divided by the number of ranks, once, is the mean. Where "
        "do you divide, and how often?",
        "alone": "These are the rank's own gradients: nothing of the others is in p.grad. Follow "
        "one message: into which tensor does all_reduce write, and is it p.grad itself? A hook of "
        "`register_hook` is called before p.grad has the gradient.",
        "silent": "No message has left for another rank. What would start one, and what does it "
        "wait for? A tied weight has two names and one gradient: a place in your list that waits "
        "for a second one is never ready.",
        "lost": "Messages were still on their way when finish returned. Each all_reduce with "
        "async_op=True returns a handle of its own, and each has to be waited for.",
        "mean": "Follow one gradient: when backward is done with it, what is sent, where does the "
        "sum stand, and who changes it after that?",
        "kept": "The first step is right, a later one is not. What does your answer still hold "
        "from the step before? p.grad may be the same tensor again, or another one.",
        "tied": "One tensor under two names is one parameter with one gradient, one hook and one "
        "message. Which of PyTorch's ways to list parameters knows that?",
        "frozen": "Where requires_grad is False there is no gradient: nothing to send, and nothing "
        "to average.",
        "raised": "Start from the exception. If it is about a parameter or its gradient: a frozen "
        "parameter takes no hook, and p.grad is there only when this step's backward has added "
        "everything up. What does your answer know of this step, and what of the one before?",
        "bytes": "Count what one step has to send: each trained parameter's gradient, once, in its "
        "own dtype.",
        "wire": "To add up n bytes over p ranks, each rank must send 2 (p-1)/p · n; a ring sends "
        "no more. Everyone's gradients on every rank, or all of them through one rank, are more.",
        "after_backward": "What backward had computed by then should have left. Who starts the "
        "message: something that backward calls for each gradient, or something that comes later? "
        "And if a gradient waits for its turn: who starts it then, and is it perhaps behind one "
        "that backward reaches only at its end?",
        "waiting": "A hook that waits keeps backward from computing the next gradient. A hook "
        "starts a message and returns. Which function has time to wait?",
        "order": "Collectives have no names: a rank's third call meets the third call of the "
        "others. Here one rank's left branch was added to another rank's right branch. A gradient "
        "that is ready has to wait for its turn, in an order that all ranks know; its hook has "
        "not. Whose hook starts it then?",
        "hang": "A rank waits for a message that another one has not started. Every rank must "
        "start one for each trained parameter in every step. Is there a gradient that waits for "
        "its turn, and nobody looks at it again? Is what you noted in the last step cleared?",
        "mismatch": "Collectives have no names: a rank's third call meets the third call of the "
        "others. Which order do all ranks know beforehand, and does each rank start every message "
        "of a step in that step?",
    },
)
