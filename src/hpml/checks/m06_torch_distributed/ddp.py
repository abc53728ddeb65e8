"""Exercise ddp: a module wrapper that averages gradients in buckets while backward still runs.

A rank asks the parent for each step's batch. The last gradient of backward has a factor, which the
module asks for when backward comes to it: until then that gradient is not ready, whatever the
answer does, and the parent knows the moment.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hpml.checks.budget import over_bytes
from hpml.checks.compare import state_difference, state_of
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits.ready_made import DATA_PARALLEL
from hpml.predict.collectives import all_reduce_bytes, broadcast_bytes
from hpml.ranks import Reply, Server, ask
from hpml.ranks.evidence import Call, RankEvidence

LEARNING_RATE = 0.5
STEPS = 3
TOKENS = 256
TOLERANCE = 1e-9  # the model is float64: only the order of additions may differ
PADDING = 64  # bytes by which a message may be rounded up
BUFFERS = ("shift", "version")


class Scaled(torch.autograd.Function):
    """The input, whose gradient is multiplied by `factor()`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: Callable[[], float]) -> torch.Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient * ctx.factor(), None


class Net(nn.Module):
    """Predicts a token from a token, int64 (N,) -> float64 (N, 256), with every difficult case.

    The output layer's weight is the embedding's (Press and Wolf, 2017), one layer is frozen, there
    are two buffers, and `branch` ("left", "right" or "both") leaves a layer out. Backward comes to
    the embedding last, and calls `factor` then.
    """

    factor: Callable[[], float] = staticmethod(lambda: 1.0)

    def __init__(self, tokens: int = TOKENS, width: int = 48, layers: int = 5) -> None:
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        self.frozen = nn.Linear(width, width).requires_grad_(False)
        self.left = nn.Linear(width, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.right = nn.Linear(width, width)
        self.head = nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("shift", torch.zeros(width))
        self.register_buffer("version", torch.tensor(0))
        self.double()

    def forward(self, tokens: torch.Tensor, branch: str) -> torch.Tensor:
        x = self.frozen(Scaled.apply(self.embed(tokens), self.factor) + self.shift)
        if branch != "right":
            x = x + torch.tanh(self.left(x))
        for layer in self.hidden:
            x = x + torch.tanh(layer(x))
        if branch != "left":
            x = x + torch.tanh(self.right(x))
        return self.head(x)


def new_state(seed: int) -> dict[str, torch.Tensor]:
    """A state dict for `Net`, buffers included, drawn from `seed`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Net()
        net.shift.normal_()
        net.version.fill_(1 + seed % 1000)
        return {name: tensor.clone() for name, tensor in net.state_dict().items()}


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: its own state, `bucket_bytes`, and the batches of each step, with
    the factor of its last gradient."""
    draw = torch.Generator().manual_seed(seed)

    def batch(branch: str) -> list[Any]:
        tokens, targets = torch.randint(0, TOKENS, (2, 10), generator=draw)
        return [tokens, targets, branch, 0.5 + torch.rand((), generator=draw).item()]

    def ranks(branches: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        return [
            {
                "state": new_state(seed + 7 * rank),
                "bucket_bytes": (40_000, 52_000, 64_000)[seed % 3],
                "batches": [batch(branch) for branch in branches[rank]],
            }
            for rank in range(world_size)
        ]

    sides = ("left", "right")
    return {
        "one model": ranks([["both"] * STEPS] * world_size),
        "two branches": ranks(
            [[sides[(rank + step) % 2] for step in range(STEPS)] for rank in range(world_size)]
        ),
    }


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: in each step of a rank "batch", then "factor", then "synchronized"."""
    step: Counter[int] = Counter()

    def reply(rank: int, request: Any) -> list[Reply]:
        step[rank] += request == "batch"
        if request not in ("batch", "factor", "synchronized") or not 1 <= step[rank] <= STEPS:
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        *batch, factor = ranks[rank]["batches"][step[rank] - 1]
        value = {"batch": batch, "factor": factor, "synchronized": None}[request]
        return [Reply(rank, value)]

    return [{k: v for k, v in rank.items() if k != "batches"} for rank in ranks], reply


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Three steps of SGD; returns the net's state at the start and after each step."""
    net = Net()
    net.load_state_dict(inputs["state"])
    net.factor = partial(ask, "factor")
    wrapped = answer.DataParallel(net, inputs["bucket_bytes"])
    start = state_of(net)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], LEARNING_RATE)
    after = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        tokens, targets, branch = ask("batch")
        functional.cross_entropy(wrapped(tokens, branch), targets).backward()
        wrapped.synchronize()
        ask("synchronized")
        optimizer.step()
        after.append(state_of(net))
    return {"start": start, "after": after}


def serial(
    state: dict[str, torch.Tensor], steps: Sequence[Sequence[Any]], divisor: int
) -> list[dict[str, torch.Tensor]]:
    """The states of one process that takes all the ranks' batches of step k, `steps[k]`, at once.

    The gradient is the sum over the batches of their mean losses' gradients, over `divisor`.
    """
    net = Net()
    net.load_state_dict(state)
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], LEARNING_RATE)
    after = []
    for batches in steps:
        optimizer.zero_grad()
        for tokens, targets, branch, factor in batches:
            net.factor = partial(float, factor)
            (functional.cross_entropy(net(tokens, branch), targets) / divisor).backward()
        optimizer.step()
        after.append(state_of(net))
    return after


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    """By stage: rank 0's `start`, and the states `after` each step."""
    expected = {}
    for stage, ranks in inputs.items():
        start = ranks[0]["state"]
        steps = list(zip(*(rank["batches"] for rank in ranks), strict=True))
        expected[stage] = {"start": start, "after": serial(start, steps, world_size)}
    return expected


def start_differs(run: Run, names: Sequence[str], what: str, hint: str) -> Problem | None:
    states = [rank["state"] for rank in run.inputs["one model"]]
    for ours, theirs in itertools.combinations(states, 2):
        assert all(not torch.equal(ours[name], theirs[name]) for name in names), "ranks start alike"
    expected = {name: states[0][name] for name in names}
    for rank, value in enumerate(run.stages["one model"].values):
        got = {name: tensor for name, tensor in value["start"].items() if name in expected}
        if found := state_difference(got, expected):
            seen = f"after construction, rank {rank} does not have rank 0's {what}: {found}"
            return Problem(seen, hint, found.expected)
    return None


def starts_from_rank_0(run: Run) -> Problem | None:
    names = [name for name in run.expected["one model"]["start"] if name not in BUFFERS]
    return start_differs(run, names, "parameters", "no_broadcast")


def starts_with_buffers(run: Run) -> Problem | None:
    return start_differs(run, BUFFERS, "buffers", "buffers")


def parity(run: Run, stage: str, hint: str) -> Problem | None:
    """Whether each rank's states equal, step by step, those of one process with the whole batch."""
    if problem := starts_from_rank_0(run) or starts_with_buffers(run):
        return problem
    expected = run.expected[stage]
    for step in range(STEPS):
        for rank, value in enumerate(run.stages[stage].values):
            got = value["after"][step]
            found = state_difference(got, expected["after"][step], TOLERANCE)
            if found is None:
                continue
            firsts = [own["batches"][0] for own in run.inputs[stage]]
            start = expected["start"]
            if step == 0 and not state_difference(got, serial(start, [firsts], 1)[0], TOLERANCE):
                return Problem(
                    f"after step 1, the weights are those of gradients added up over "
                    f"{run.world_size} ranks, not averaged",
                    "sum",
                )
            if step == 0 and not state_difference(got, expected["start"]):
                return Problem(
                    f"after step 1, rank {rank}'s weights have not changed at all", "unchanged"
                )
            alone = serial(start, [[firsts[rank]]], 1)[0]
            if step == 0 and not state_difference(got, alone, TOLERANCE):
                return Problem(
                    f"after step 1, rank {rank}'s weights are those of its own batch alone", "alone"
                )
            return Problem(
                f"after step {step + 1}, rank {rank}'s weights are not those of one process on the "
                f"whole batch: {found}",
                hint,
                found.expected,
            )
    return None


def equals_big_batch(run: Run) -> Problem | None:
    return parity(run, "one model", "parity")


def unused_counts_as_zero(run: Run) -> Problem | None:
    return fault(run.stages["two branches"]) or parity(run, "two branches", "unused")


def steps_of(rank: RankEvidence) -> list[tuple[float | None, list[Call]]]:
    """For each step: when backward came to its last gradient, and the calls that carried gradients
    to other ranks."""
    times = {
        name: [asked.at for asked in rank.asked if asked.request == name and not asked.refused]
        for name in ("batch", "factor", "synchronized")
    }
    if not len(times["batch"]) == len(times["synchronized"]) == STEPS:
        raise ValueError(f"rank {rank.rank} took {len(times['batch'])} steps")  # not judged
    return [
        (
            next((last for last in times["factor"] if begin <= last <= end), None),
            gradients_among(
                call for call in rank.calls if begin <= call.issued <= end and len(call.group) > 1
            ),
        )
        for begin, end in zip(times["batch"], times["synchronized"], strict=True)
    ]


def gradients_among(calls: Iterable[Call]) -> list[Call]:
    """All of a step's calls but its broadcasts, which bring buffers, or sums from the one rank that
    has them: at most as many bytes as there are gradients. With more, every rank's gradients are
    among them, and they count."""
    calls = [call for call in calls if call.operation != "barrier"]
    broadcasts = sum(call.nbytes for call in calls if call.operation == "broadcast")
    buffers = sum(buffer.nbytes for buffer in Net().buffers())
    if broadcasts > sum(trained_and_frozen()[0]) + buffers + PADDING * len(calls):
        return calls
    return [call for call in calls if call.operation != "broadcast"]


def trained_and_frozen() -> tuple[list[int], int]:
    """Bytes of each trained parameter (a tied one once), and of all frozen ones together."""
    sizes = [(p.requires_grad, p.numel() * p.element_size()) for p in Net().parameters()]
    return [n for trained, n in sizes if trained], sum(n for trained, n in sizes if not trained)


def travels_once(run: Run) -> Problem | None:
    sizes, frozen = trained_and_frozen()
    tied = max(sizes)
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        for step, (_, calls) in enumerate(steps_of(rank), 1):
            carried = sum(call.nbytes for call in calls)
            more = carried - sum(sizes)
            slack = PADDING * len(calls)
            seen = (
                f"in step {step}, rank {rank.rank} sent {carried} bytes; the gradients of all "
                f"parameters that are trained, each once, are {sum(sizes)} bytes"
            )
            if more < 0:
                return Problem(seen, "bytes")
            if 0 <= more - tied <= slack:
                return Problem(f"{seen}, and the tied weight's are {tied} of them", "tied")
            if 0 <= more - frozen <= slack:
                return Problem(f"{seen}, and the frozen layer has {frozen} bytes", "frozen")
            if more > slack:
                return Problem(seen, "bytes")
    return None


def few_messages(run: Run) -> Problem | None:
    sizes, _ = trained_and_frozen()
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        bucket = run.inputs["one model"][rank.rank]["bucket_bytes"]
        # Full buckets: a gradient that does not fit opens the next bucket, so two neighbours
        # together hold more than bucket_bytes.
        most = 2 * sum(sizes) // bucket + 1
        largest = max(bucket, *sizes) + PADDING
        for step, (_, calls) in enumerate(steps_of(rank), 1):
            if not calls:
                return Problem(f"in step {step}, rank {rank.rank} sent no gradients", "alone")
            if (carried := sum(call.nbytes for call in calls)) < sum(sizes):
                seen = f"in step {step}, rank {rank.rank} sent {carried} bytes of its gradients"
                return Problem(f"{seen}, which have {sum(sizes)}", "bytes")
            if len(calls) > most:
                return Problem(
                    f"in step {step}, rank {rank.rank} sent {len(calls)} messages for {len(sizes)} "
                    f"parameters; with full buckets of {bucket} bytes, {most} are enough",
                    "messages",
                )
            if (size := max(call.nbytes for call in calls)) > largest:
                return Problem(
                    f"in step {step}, rank {rank.rank} sent a message of {size} bytes; "
                    f"bucket_bytes is {bucket}, and the largest parameter has {max(sizes)} bytes",
                    "one_bucket",
                )
    return None


def overlaps(run: Run) -> Problem | None:
    sizes, _ = trained_and_frozen()
    ready = sum(sizes) - max(sizes)
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        for step, (last, calls) in enumerate(steps_of(rank), 1):
            if last is None:
                return Problem(
                    f"in step {step}, rank {rank.rank}'s module, the one you were given, got no "
                    "gradients",
                    "unchanged",
                )
            # A tied weight twice and a frozen layer are fewer: what left early may be for show.
            if (carried := sum(call.nbytes for call in calls)) >= 2 * sum(sizes):
                return Problem(
                    f"in step {step}, rank {rank.rank} sent {carried} bytes for its gradients, "
                    f"which have {sum(sizes)}",
                    "bytes",
                )
            early = [call for call in calls if call.issued < last]
            if not early:
                return Problem(
                    f"in step {step}, rank {rank.rank} had sent nothing yet when backward came to "
                    "the last parameter",
                    "after_backward",
                )
            # The largest parameter, the embedding, gets its gradient last. The bucket before it may
            # be open until then.
            if (sent := sum(call.nbytes for call in early)) < ready / 2:
                return Problem(
                    f"in step {step}, rank {rank.rank} had sent {sent} bytes when backward came to "
                    f"the last parameter; gradients of {ready} bytes were ready",
                    "after_backward",
                )
            if waited := [call for call in early if call.waited and call.waited < last]:
                return Problem(
                    f"in step {step}, rank {rank.rank} waited for {len(waited)} messages while "
                    "backward still had gradients to compute",
                    "waiting",
                )
    return None


def as_little_as_a_ring(run: Run) -> Problem | CannotJudge | None:
    """Over the whole launch: rank 0's state is sent once, then the gradients of each step."""
    gradients = STEPS * all_reduce_bytes(run.world_size, sum(trained_and_frozen()[0]))
    # By its names, where a tied weight stands twice: that is how many send it, once in a run
    state = sum(t.numel() * t.element_size() for t in Net().state_dict().values())
    for rank in run.stages["one model"].ranks if run.world_size > 1 else ():
        # A rank that sends too little did not save traffic: it skipped gradients.
        if rank.traffic is not None and rank.traffic.sent_bytes < gradients / 2:
            sent = f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes over its link"
            return Problem(f"{sent}: gradients cannot be among them", "alone")
    return over_bytes(
        run.stages["one model"],
        [gradients + broadcast_bytes(run.world_size, state)] * run.world_size,
        "wire",
    )


CHECK = Check(
    id="ddp",
    title="Data parallel by hand",
    names=("DataParallel",),
    to_write="the wrapper",
    allowed="everything else in `torch`, hooks of autograd and collectives",
    not_allowed=(DATA_PARALLEL,),
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("one model", drive, link="1gbit", serve=serve),
        Stage("two branches", drive, dies=True, serve=serve),
    ),
    timeout=30.0,
    claims=(
        Claim("every rank starts from rank 0's parameters", 3, starts_from_rank_0),
        Claim("every rank starts with rank 0's buffers", 2, starts_with_buffers),
        Claim("each step is that of one process on the whole batch", 4, equals_big_batch),
        Claim("a layer that some ranks did not use is averaged too", 2, unused_counts_as_zero),
        Claim("a tied weight travels once, a frozen one never", 2, travels_once, of_calls=True),
        Claim("gradients travel in a few full buckets", 2, few_messages, of_calls=True),
        Claim(
            "buckets leave while backward runs, and wait for nothing", 3, overlaps, of_calls=True
        ),
        Claim("no rank sends more than a ring needs", 2, as_little_as_a_ring),
    ),
    hints={
        "start": "Three moments: __init__ (make ranks alike, plan buckets, register hooks), the "
        "hook (a gradient is ready: is its bucket complete?), synchronize (wait, and put the means "
        "where the optimizer looks for them).",
        "no_broadcast": "Averaging gradients keeps equal weights equal. It does not make different "
        "weights equal: who has the weights that count when training starts?",
        "buffers": "A model's state is more than what the optimizer changes. Think of the running "
        "mean of a batch norm: parameters() does not list it.",
        "sum": "all_reduce adds up. Each rank's loss is a mean over its own share; the loss of the "
        "whole batch is the mean of those. A sum is a learning rate that grows with the ranks.",
        "alone": "The optimizer reads p.grad. What you reduced is a tensor of your own until its "
        "content stands there.",
        "unchanged": "The module you were given did not change: wrap it, do not copy it, and leave "
        "the gradients in its own parameters.",
        "parity": "Follow one gradient: into its place in a bucket, through the reduction, out of "
        "the same place, in the same dtype, in every step anew.",
        "unused": "A parameter without a gradient in this step fires no hook, and its p.grad is "
        "None (not last step's value). Others still wait for its bucket: what does this rank add "
        "to the mean, and when?",
        "tied": "One tensor under two names is one parameter with one gradient. Which of PyTorch's "
        "ways to list parameters knows that?",
        "frozen": "Where requires_grad is False there will never be a gradient to average.",
        "bytes": "Count what one step has to send: each trained parameter's gradient, once, in its "
        "own dtype.",
        "messages": "Every message costs its latency. A bucket is there so that many small "
        "gradients share one message.",
        "one_bucket": "One message with everything in it cannot leave before everything is there. "
        "bucket_bytes says when a bucket is full.",
        "after_backward": "While backward computes the first layers, the last layers' gradients "
        "have been ready for long. PyTorch can tell you when one is: "
        "Tensor.register_post_accumulate_grad_hook.",
        "waiting": "Sending and waiting are two things. A call that returns only when the message "
        "has arrived makes backward stand still meanwhile.",
        "wire": "To average n bytes over p ranks, each rank must send 2 (p-1)/p · n; a ring sends "
        "no more. Everyone's gradients on every rank, or all of them through one rank, are more. "
        "Which single collective makes the sum where it is needed?",
        "mismatch": "Collectives have no names: the third call on one rank meets the third on the "
        "others. Gradients may become ready in another order there. What order can all ranks agree "
        "on beforehand?",
        "hang": "Every rank must send every bucket in every step, even one whose gradients never "
        "came. Who sends it then?",
    },
)
