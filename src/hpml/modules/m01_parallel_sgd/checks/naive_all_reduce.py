"""Exercise naive_all_reduce: all ranks send their tensor to rank 0, which sends back the sum.

`naive_all_reduce(tensor) -> tensor`, a new one.
"""

from types import ModuleType
from typing import Any

import torch

from hpml.checks.budget import over_bytes
from hpml.checks.compare import difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.kits import ready_made
from hpml.modules.m01_parallel_sgd.checks._all_reduce_picture import all_reduce_picture
from hpml.modules.m01_parallel_sgd.checks._sums import draw_tensor, wrong_sum
from hpml.ranks import mark

LONG = 100_000  # elements of the tensor whose traffic is measured, float32
MESSAGES = ("send", "recv", "barrier")


def inputs(seed: int, world_size: int) -> list[dict[str, torch.Tensor]]:
    """For each rank, tensors by name; shapes and dtypes are the same on all."""
    draw = torch.Generator().manual_seed(seed)
    length = 20 + seed % 50
    return [
        {
            "a vector": draw_tensor(draw, torch.float32, length),
            # Like the first: a result that is kept and used again would be overwritten
            "another vector": draw_tensor(draw, torch.float32, length),
            "a number": draw_tensor(draw, torch.float64),
            "a matrix of float64": draw_tensor(draw, torch.float64, 4, 7),
            "a tensor of int64": draw_tensor(draw, torch.int64, 2, 3, 5),
            "400 kB": draw_tensor(draw, torch.float32, LONG),
        }
        for _ in range(world_size)
    ]


def drive(answer: ModuleType, inputs: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Each tensor's sum and the tensor itself, after the last call. `shared`: is the sum the tensor
    that went in? `again`: the name of another tensor whose sum is the same memory, or ""."""
    sums, left, shared, again = {}, {}, {}, {}
    for name, tensor in inputs.items():
        mark(name)
        given = tensor.clone()
        got = answer.naive_all_reduce(given)
        place = got.data_ptr() if isinstance(got, torch.Tensor) else None
        again[name] = next(
            (n for n, t in sums.items() if isinstance(t, torch.Tensor) and t.data_ptr() == place),
            "",
        )
        sums[name], left[name] = got, given
        shared[name] = place == given.data_ptr()
    return {"sums": sums, "left": left, "shared": shared, "again": again}


def expect(inputs: list[dict[str, torch.Tensor]], world_size: int) -> dict[str, torch.Tensor]:
    return {name: torch.stack([rank[name] for rank in inputs]).sum(0) for name in inputs[0]}


def everybody_has_the_sum(run: Run) -> Problem | None:
    for rank, value in enumerate(run.values):
        for name, earlier in value["again"].items():
            if earlier:
                seen = (
                    f"rank {rank}: the sum of {name} is in the tensor that held that of {earlier}"
                )
                return Problem(seen, "again", "a new tensor from each call")
    for name, right in run.expected.items():
        tensors = [rank[name] for rank in run.inputs]
        for rank, value in enumerate(run.values):
            got = value["sums"][name]
            if found := wrong_sum(got, tensors, right):
                differs, made = found
                hint = misconception(run, name, rank, got, made)
                seen = f"{name}, rank {rank}: what came back {differs}"
                return Problem(seen, hint, differs.expected)
    return None


def misconception(run: Run, name: str, rank: int, got: Any, made: list[float] | None) -> str:
    """The hint for a wrong sum: the usual mistake that explains it."""
    if not isinstance(got, torch.Tensor):
        return "returns"
    if made is None:
        return "start"
    if made == [1 / run.world_size] * run.world_size:
        return "mean"
    if run.world_size > 2 and sum(made) == 2 and max(made) == 1:
        return "two_ranks"
    right_on_0 = not difference(run.values[0]["sums"][name], run.expected[name])
    if rank and right_on_0 and sum(made) <= 1:
        return "root_only"
    return "alone" if made == [float(r == rank) for r in range(run.world_size)] else "terms"


def input_is_left_alone(run: Run) -> Problem | None:
    for name in run.expected:
        for rank, value in enumerate(run.values):
            before = run.inputs[rank][name]
            if found := difference(value["left"][name], before):
                seen = f"{name}, rank {rank}: the tensor that went in {found}"
                return Problem(seen, "input", found.expected)
            if value["shared"][name]:
                return Problem(
                    f"{name}, rank {rank}: what came back is the tensor that went in", "input"
                )
    return None


def by_send_and_recv(run: Run) -> Problem | None:
    for rank in run.evidence.ranks:
        for call in rank.calls:
            if call.operation not in MESSAGES:
                where = f" (line {call.line} of your answer)" if call.line else ""
                return Problem(f"rank {rank.rank} is in {call.operation}{where}", "collective")
        sends = [call for call in rank.calls if call.operation == "send"]
        if run.world_size > 1 and not sends:
            calls = (call for other in run.evidence.ranks for call in other.calls)
            some_do = any(call.operation == "send" for call in calls)
            hint = "traffic" if some_do else "alone"
            return Problem(f"rank {rank.rank} sends nothing to anybody", hint)
    return None


def rank_0_has_the_traffic(run: Run) -> Problem | CannotJudge | None:
    """Rank 0 sends the sum to each other rank; each other rank sends its tensor once."""
    if run.world_size == 1:
        return None
    others = run.world_size - 1
    each = sum(tensor.nbytes for tensor in run.inputs[0].values())
    shares = [others, *[1] * others]
    for rank, share in zip(run.evidence.ranks, shares, strict=True):
        sent = sum(call.nbytes for call in rank.calls if call.operation == "send")
        if sent != share * each:
            if (found := by_send_and_recv(run)) and found.hint == "collective":
                return found  # the bytes only follow from it
            hint = "everybody" if rank.rank and sent > each else "traffic"
            return Problem(
                f"rank {rank.rank} sends {sent / each:.3g} times the bytes of its tensors",
                hint,
                f"{share} times, through rank 0",
            )
        for call in rank.calls:
            if rank.rank and call.operation == "send" and call.peer not in (0, None):
                seen = f"rank {rank.rank} sends to rank {call.peer}"
                return Problem(seen, "traffic", "rank 0, which adds up")
        if rank.traffic is not None and rank.traffic.sent_bytes < share * each / 2:
            sent = f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes over its link"
            return Problem(f"{sent}: too little for its tensors", "alone")
    return over_bytes(run.evidence, [share * each for share in shares], "everybody")


CHECK = Check(
    id="naive_all_reduce",
    title="All-reduce through one rank",
    names=("naive_all_reduce",),
    picture=all_reduce_picture("naive_all_reduce", in_place=False),
    to_write="the sum through rank 0",
    allowed=ready_made.MESSAGES,
    not_allowed=(ready_made.COLLECTIVES, ready_made.REMOTE_CALLS),
    inputs=inputs,
    drive=drive,
    expect=expect,
    link="1gbit",
    claims=(
        Claim("every rank gets the sum over all ranks", 4, everybody_has_the_sum),
        Claim("the tensor that went in is as it was", 2, input_is_left_alone),
        Claim("it is made of send and recv", 2, by_send_and_recv, of_calls=True),
        Claim(
            "everybody sends to rank 0 alone, and rank 0 to everybody",
            2,
            rank_0_has_the_traffic,
            of_calls=True,
        ),
    ),
    hints={
        "start": "What does rank 0 need that the others do not? There are two kinds of ranks. "
        "Rank 0: a tensor for the total, which begins as a copy of its own; one more to receive "
        "into, once for each of the others. All the others: send, then receive. dist.get_rank() "
        "and dist.get_world_size() tell them apart.",
        "alone": "That rank has its own tensor alone, and nothing of the others' is in it. A sum "
        "over ranks takes messages, dist.send on one side and dist.recv on the other.",
        "root_only": "Rank 0 has added up and keeps the result to itself. Who else needs it, and "
        "what do they wait in?",
        "two_ranks": "Of the other ranks' tensors, only one was added. Rank 0 receives from each "
        "rank from 1 to world size - 1, adds what has arrived before the next one arrives in its "
        "place, and sends the sum to each of them.",
        "terms": "Some ranks' tensors are in the total more than once or not at all. Each message "
        "needs a place to arrive in that nothing else is written to before it was added: one "
        "tensor for two receives under way keeps the last one only.",
        "mean": "That is the mean. An all-reduce adds up; if you want the mean, divide afterwards.",
        "returns": "The function returns the sum, a tensor of the same shape and dtype, on every "
        "rank.",
        "input": "The caller still needs the tensor that it gave you: neither add to it nor "
        "receive into it, nor return it. total = tensor is only a second name for the same memory; "
        "tensor.clone() is a copy, and torch.empty_like(tensor) a place to receive into.",
        "again": "Each call returns a tensor of its own: the caller may still need the sum that "
        "the call before has returned. Make it within the function, with tensor.clone().",
        "collective": "That is one of the library's collectives, which hides the very thing to be "
        "seen here: who sends what to whom. dist.send, dist.recv, dist.isend and dist.irecv are "
        "enough.",
        "everybody": "If everybody sends to everybody, each rank sends as much as rank 0 does: "
        "p (p-1) messages instead of 2 (p-1). Let one rank add up, and send the sum.",
        "traffic": "Through rank 0: each of the others sends its tensor to rank 0 once, and rank 0 "
        "sends the sum to each of them. Trees and rings come later.",
        "raised": "Start from the exception: it names a line of your answer. If it is about ranks, "
        "or a pair that is not connected: a rank cannot send to itself, and rank 0 is not among "
        "those that rank 0 receives from.",
        "hang": "A send is complete when its receive is there, and a receive when its send is. Go "
        "through one rank's calls in their order: who is on the other end of each, and what is "
        "that rank doing at that moment?",
    },
)
