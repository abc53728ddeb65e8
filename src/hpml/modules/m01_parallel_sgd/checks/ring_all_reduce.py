"""Exercise ring_all_reduce: reduce-scatter, then all-gather, of the tensor's parts round a ring.

`ring_all_reduce(tensor) -> None`, in place.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import torch

from hpml.checks.budget import no_network, over_bytes, over_seconds
from hpml.checks.compare import difference
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage, fault
from hpml.checks.kits import ready_made
from hpml.modules.m01_parallel_sgd.checks import _rounds as rounds
from hpml.modules.m01_parallel_sgd.checks._all_reduce_picture import all_reduce_picture
from hpml.modules.m01_parallel_sgd.checks._beside import (
    GOOD,
    IN_A_ROW,
    MOST_TIMES,
    as_slow_once,
    pass_round,
    serve,
    slow_because,
    time_over_link,
)
from hpml.modules.m01_parallel_sgd.checks._beside_gloo import beside_gloo
from hpml.modules.m01_parallel_sgd.checks._sums import draw_tensor, wrong_sum
from hpml.network.link import parse_rate
from hpml.predict.collectives import all_reduce_bytes, seconds
from hpml.ranks import mark
from hpml.ranks.evidence import Call, Evidence, RankEvidence

LINK = "100mbit"
LONG = 72_000  # elements, float32, of each measured tensor; divisible by 2, 3 and 4
TIMED_AT = (2, 3)  # ranks: with 4, the grader injects waits, which would be timed
MOST_TIMED = IN_A_ROW * MOST_TIMES  # tensors, none like another: a sum may be remembered
MESSAGES = ("send", "recv", "barrier")


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: tensors by name, of the same shapes on all ranks."""
    draw = torch.Generator().manual_seed(seed)
    lengths = (0, 1, world_size + 1, 1001 + 12 * (seed % 40))
    dtypes = (torch.float32, torch.float64, torch.int64)
    bound = seconds(IN_A_ROW * all_reduce_bytes(world_size, 4 * LONG), parse_rate(LINK))
    rows = 1 + MOST_TIMED if world_size in TIMED_AT else 1
    even = [
        {
            "tensors": {
                "24 elements": draw_tensor(draw, torch.float32, 24),
                "a matrix of float64": draw_tensor(draw, torch.float64, 12, 7),
                "a tensor of int64": draw_tensor(draw, torch.int64, 3, 5, 4),
            },
            "long": draw_tensor(draw, torch.float32, rows, LONG),
            "bound": bound if world_size in TIMED_AT else None,
        }
        for _ in range(world_size)
    ]
    odd = [
        {
            f"{length} element{'s' * (length != 1)}": draw_tensor(draw, dtypes[k % 3], length)
            for k, length in enumerate(lengths)
        }
        | {"a number": draw_tensor(draw, torch.float64)}
        for _ in range(world_size)
    ]
    messages = [{"bound": rank["bound"]} for rank in even]
    return {"even": even, "messages": messages, "again": even, "odd": odd}


def in_place(answer: ModuleType, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each tensor after the call."""
    after = {name: tensor.clone() for name, tensor in tensors.items()}
    for name, tensor in after.items():
        mark(name)
        answer.ring_all_reduce(tensor)
    return after


def messages(inputs: dict[str, Any]) -> None:
    """What a ring sends for the timed tensors, without an answer."""
    time_over_link(pass_round, torch.zeros(MOST_TIMED, LONG))


def even(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Reduce short and long tensors; some of the long ones are timed."""
    after = in_place(answer, inputs["tensors"])
    # A matrix of one row, so that its rows cannot be its parts
    first, rest = inputs["long"][:1].clone(), inputs["long"][1:]
    mark(f"a matrix of 1 row and {first.numel()} columns")
    answer.ring_all_reduce(first)
    timed = time_over_link(answer.ring_all_reduce, rest)
    return {"after": after, "long": [first.flatten(), *timed]}


def odd(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    return in_place(answer, inputs)


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[str, Any]:
    def total(ranks: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        return {name: torch.stack([rank[name] for rank in ranks]).sum(0) for name in ranks[0]}

    return {
        "even": total([rank["tensors"] for rank in inputs["even"]]),
        "odd": total(inputs["odd"]),
        "long": torch.stack([rank["long"] for rank in inputs["even"]]).sum(0),
    }


def timed_stages(run: Run) -> list[Evidence]:
    return [run.stages[name] for name in ("even", "again") if name in run.stages]


def sum_is_everywhere(run: Run) -> Problem | None:
    return next(filter(None, (wrong_in(run, stage) for stage in timed_stages(run))), None)


def wrong_in(run: Run, stage: Evidence) -> Problem | None:
    given = [rank["tensors"] for rank in run.inputs["even"]]
    after = [value["after"] for value in stage.values]
    return wrong_sums(run, given, after, run.expected["even"]) or wrong_where_timed(run, stage)


def wrong_where_timed(run: Run, stage: Evidence) -> Problem | None:
    for rank, value in enumerate(stage.values):
        for row, got in enumerate(value["long"]):
            tensors = [inputs["long"][row] for inputs in run.inputs["even"]]
            if found := wrong_sum(got, tensors, run.expected["long"][row]):
                seen = f"a tensor of {LONG} elements, rank {rank}: it {found[0]}"
                return Problem(seen, "order", found[0].expected)
    return None


def lengths_do_not_matter(run: Run) -> Problem | None:
    if problem := fault(run.stages["odd"]):
        return because_of(run, problem)
    after = run.stages["odd"].values
    problem = wrong_sums(run, run.inputs["odd"], after, run.expected["odd"])
    return problem and because_of(run, replace(problem, hint="tail"))


def because_of(run: Run, problem: Problem) -> Problem:
    """`problem`, with the hint of wrong sums of any length where there are some: those of a few
    elements, and the time that it took, only follow from them."""
    first = sum_is_everywhere(run)
    return replace(problem, hint=first.hint) if first else problem


def wrong_sums(run: Run, given: Any, after: Any, expected: dict[str, Any]) -> Problem | None:
    for name, right in expected.items():
        tensors = [rank[name] for rank in given]
        for rank, tensors_after in enumerate(after):
            got = tensors_after[name]
            if found := wrong_sum(got, tensors, right):
                hint = misconception(run, got, tensors[rank], found[1])
                seen = f"{name}, rank {rank}: the tensor {found[0]}"
                return Problem(seen, hint, found[0].expected)
    return None


def misconception(run: Run, got: Any, own: torch.Tensor, made: list[float] | None) -> str:
    """The hint for a wrong sum: the usual mistake that explains it."""
    if not difference(got, own):
        return "unchanged"
    if made == [1 / run.world_size] * run.world_size:
        return "mean"
    sent = sum(call.nbytes for call in sends_of(run.stages["even"].ranks[0]))
    if 0 < sent <= 0.6 * bytes_needed(run):
        return "half"
    return "twice" if made and max(made) > 1 else "order"


def sends_of(rank: RankEvidence) -> list[Call]:
    return [call for call in rank.calls if call.operation == "send"]


def bytes_needed(run: Run) -> float:
    """Bytes that each rank must send in the stage with the link."""
    short = sum(tensor.nbytes for tensor in run.expected["even"].values())
    long = 4 * LONG * len(run.stages["even"].values[0]["long"])
    return all_reduce_bytes(run.world_size, short + long)


def collectives(run: Run) -> Problem | None:
    """The first call that is not a message between two ranks."""
    for rank in run.stages["even"].ranks:
        for call in rank.calls:
            if call.operation not in MESSAGES:
                where = f" (line {call.line} of your answer)" if call.line else ""
                return Problem(f"rank {rank.rank} is in {call.operation}{where}", "collective")
    return None


def round_the_ring(run: Run) -> Problem | None:
    if problem := collectives(run):
        return problem
    for rank in run.stages["even"].ranks:
        peers = {call.peer for call in sends_of(rank) if call.peer is not None}
        if run.world_size > 1 and not peers:
            return Problem(f"rank {rank.rank} sends nothing to anybody", "neighbours")
        if len(peers) > 1:
            ranks = " and ".join(map(str, sorted(peers)))
            return Problem(f"rank {rank.rank} sends to the ranks {ranks}", "neighbours")
        right = (rank.rank + 1) % run.world_size
        if peers and peers != {right}:
            seen = f"rank {rank.rank} sends to rank {peers.pop()}"
            return Problem(seen, "neighbours", f"rank {right}")
    return None


def as_few_bytes_as_can_be(run: Run) -> Problem | CannotJudge | None:
    if run.world_size == 1:
        return None
    if problem := collectives(run):
        return problem
    stage, bound = run.stages["even"], bytes_needed(run)
    for rank in stage.ranks:
        sent = sum(call.nbytes for call in sends_of(rank))
        if sent < bound / 1.05:
            seen = f"rank {rank.rank} sends {sent} bytes"
            return Problem(f"{seen}, and 2 (p-1)/p of the tensors' are {bound:.0f}", "half")
        if sent > 1.05 * bound:
            largest = max(call.nbytes for call in sends_of(rank))
            return Problem(
                f"rank {rank.rank} sends {sent / bound:.2f} times the bytes that are needed, "
                f"2 (p-1)/p of the tensors'; its longest message has {largest} bytes",
                "whole" if largest >= 4 * LONG else "bytes",
            )
        if rank.traffic is not None and rank.traffic.sent_bytes < bound:
            told = f"rank {rank.rank} sent {rank.traffic.sent_bytes} bytes over its link"
            return Problem(f"{told}: the tensors' parts cannot all be among them", "half")
    return over_bytes(stage, [bound] * run.world_size, "bytes")


TOO_BUSY = CannotJudge("the machine is too busy to time messages: check again when it is not")


def as_fast_as_the_links(run: Run) -> Problem | CannotJudge | None:
    # With injected waits before calls, the waits would be timed.
    if run.world_size not in TIMED_AT or run.delayed:
        return None
    if problem := collectives(run):
        return problem
    tries, known = timed_stages(run), run.stages.get("messages")
    for stage in tries:
        if problem := wrong_where_timed(run, stage):  # how long nothing takes is no matter
            return because_of(run, problem)
    if problem := next(filter(None, map(arrives_outside, tries)), None):
        return because_of(run, problem)
    for stage in tries:
        problem = slow_in(stage, run.inputs["even"][0]["bound"], known)
        if not isinstance(problem, Problem):
            return problem or too_busy_to_tell(stage, run.inputs["even"][0]["bound"])
    # The order of calls does not depend on load; if it is right, a slow time may be the machine's.
    took = min(min(rounds.seconds(stage)) for stage in tries)
    if problem.hint == "slow" and known is not None and as_slow_once(known, took / GOOD):
        return TOO_BUSY
    return problem


def too_busy_to_tell(stage: Evidence, bound: float | None) -> CannotJudge | None:
    """Slow calls in an order that may be why, beside known messages that were slow as well."""
    slow = bound is not None and isinstance(slow_in(stage, bound, None), Problem)
    return TOO_BUSY if slow and slow_because(stage.ranks) != "slow" else None


def arrives_outside(stage: Evidence) -> Problem | None:
    """Whether a round of some rank lacks bytes that must come in it."""
    needed = IN_A_ROW * all_reduce_bytes(stage.world_size, 4 * LONG)
    for rank in stage.ranks:
        if min(rounds.received(rank), default=0) < needed / 1.05:
            seen = f"while it is timed, rank {rank.rank} receives less than the {needed:.0f} bytes"
            return Problem(f"{seen} that must come", slow_because(stage.ranks))
    return None


def slow_in(stage: Evidence, bound: float, known: Evidence | None) -> Problem | CannotJudge | None:
    """Whether the timed tensors took longer than their bytes do, and than `known` messages did."""
    reference = 0.0 if known is None or no_network(known) else min(rounds.seconds(known))
    took = min(rounds.seconds(stage), default=0.0)
    return over_seconds(
        stage, took, bound, slow_because(stage.ranks), slack=GOOD, reference=reference
    )


def looks_slow(inputs: dict[str, Any], found: Mapping[str, Evidence]) -> bool:
    """Whether `even` is to be compared with known messages. A ring that is as fast as its bytes is
    not: theirs cannot be faster."""
    bound = inputs["even"][0]["bound"]
    return bound is not None and isinstance(slow_in(found["even"], bound, None), Problem)


def is_slow(inputs: dict[str, Any], found: Mapping[str, Evidence]) -> bool:
    """Whether `even` took longer than the messages, and is given a second try: the machine may have
    been busy during one of the two alone."""
    known, bound = found.get("messages"), inputs["even"][0]["bound"]
    return known is not None and isinstance(slow_in(found["even"], bound, known), Problem)


CHECK = Check(
    id="ring_all_reduce",
    title="All-reduce around a ring",
    names=("ring_all_reduce",),
    picture=all_reduce_picture("ring_all_reduce", in_place=True),
    beside=beside_gloo,
    to_write="the two loops around the ring",
    allowed=ready_made.MESSAGES,
    not_allowed=(ready_made.COLLECTIVES, ready_made.REMOTE_CALLS),
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("even", even, link=LINK, serve=serve),
        Stage("messages", messages, when=looks_slow, with_answer=False, link=LINK, serve=serve),
        Stage("again", even, when=is_slow, link=LINK, serve=serve),
        Stage("odd", odd, dies=True),
    ),
    timed_at=TIMED_AT,
    claims=(
        Claim("every rank has the sum, in the tensor itself", 5, sum_is_everywhere),
        Claim("a tensor of any length is added up", 4, lengths_do_not_matter),
        Claim("messages go round a ring, by send and recv", 3, round_the_ring, of_calls=True),
        Claim(
            "no rank sends more than 2 (p-1)/p of the bytes",
            4,
            as_few_bytes_as_can_be,
            of_calls=True,
        ),
        Claim("over a slow link, that is all it takes", 4, as_fast_as_the_links, of_calls=True),
    ),
    hints={
        "start": "For 3 ranks: who sends which part in which step? Write it down before you "
        "write code. There are two loops of p-1 steps. In each step a rank sends one part to the "
        "right and receives another from the left: one call of exchange. In the first loop what "
        "comes is added to the rank's own; in the second it takes its place.",
        "unchanged": "The tensor that was given must hold the sum afterwards; what is returned is "
        "not looked at. Parts that share its memory (tensor.view(-1), slices, tensor_split) can be "
        "written to; a sum that is made elsewhere must be copied back.",
        "mean": "That is the mean. An all-reduce adds up; if you want the mean, divide afterwards.",
        "half": "Half of the way: after p-1 steps each rank has the whole sum of one part, and "
        "something unfinished in the others. The second loop sends the finished parts round.",
        "twice": "Something was added more than once. In the second loop (all-gather) what arrives "
        "is finished: it replaces what is there. And in the first, p-1 steps are enough: in the "
        "p-th a part would come back to where it began.",
        "order": "Which part, in which step? What a rank sends in a step is what it received (and "
        "added up) in the step before: rank r begins with part r, then sends r-1, r-2, … (modulo "
        "p). After the first loop it holds the sum of part r+1, and that is where the second one "
        "begins.",
        "tail": "It holds where p divides the length. Parts need not be equally long: "
        "Tensor.tensor_split makes p parts of any length. The place to receive into must be as "
        "long as the part that comes.",
        "neighbours": "In a ring each rank knows two others: it sends to the right, "
        "(rank + 1) % p, and receives from the left, (rank - 1) % p, in every step.",
        "collective": "That is one of the library's collectives, and how it is done is what you "
        "write here. exchange, which is given, is enough.",
        "whole": "The whole tensor goes round the ring: p-1 times n bytes from each rank. Cut it "
        "into p parts, one for each rank to be added up at, and send one part in each step. A "
        "matrix is cut by its elements and not by its rows: tensor.view(-1) has all in one row.",
        "bytes": "Count one rank's bytes: p-1 steps to add up, p-1 steps to hand round, a p-th of "
        "the tensor in each. Is there a step too many, or a part that is sent twice?",
        "turns": "Some ranks receive while others send, and then the other way round: each link is "
        "in use in one direction at a time, half of what it can do. Let every rank send and "
        "receive at the same time: start both (irecv, isend), then wait for both.",
        "late": "Each rank sends before it has said where it wants to receive. Gloo, like MPI with "
        "long messages, lets data set out when the receiver is ready; that word is short, but it "
        "queues behind the data that this rank is sending. Post the receive (irecv) before the "
        "send.",
        "slow": "The right bytes, but the link is idle in between. Messages of a p-th of the "
        "tensor, 2 (p-1) of them; in each step the receive is posted first, then the send, and "
        "then both are waited for.",
        "raised": "Start from the exception: it names a line of your answer. Tensor.chunk(p) may "
        "give fewer than p parts (4 ranks, 5 elements: 3 parts); tensor_split gives p, some of "
        "them empty. With one rank there is nobody to send to.",
        "killed": "Gloo ends the process when a message is longer than the place that it is to "
        "arrive in: that must have the length and the dtype of the part that comes.",
        "hang": "A send is complete when its receive is there. If every rank first sends and then "
        "receives, nobody ever comes to receive. isend and irecv return at once: start both, then "
        "wait for both.",
    },
)
