"""An all-reduce timed over a slow link, and messages that are known to use the link well.

The two are timed in launches of their own: in the one with the messages there is no answer, which
could slow them. Functions are imported by name, so that they are bound before the answer can
replace them in their modules. They are sent to the ranks by value.
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import barrier, irecv, isend

from hpml.checks.budget import each_elapsed
from hpml.ranks import mark
from hpml.ranks.evidence import Call, Evidence, RankEvidence

TIMED, KNOWN = ("ring", "ring done"), ("messages", "messages done")  # marks
IN_A_ROW = 3  # tensors between two marks, sent one after the other
MOST_TIMES = 4  # timings if it was slow: the machine may have been busy
GOOD = 1.25  # times the bound, or the known good messages' time; below this, not timed again


def time_over_link(
    marks: tuple[str, str],
    work: Callable[[torch.Tensor], Any],
    given: torch.Tensor,
    bound: float | None,
) -> list[torch.Tensor]:
    """On a rank: time `work` for IN_A_ROW of `given`'s rows, between marks.

    Repeats, with the next rows, while it takes longer than `bound` seconds, MOST_TIMES at most;
    without a bound, does nothing. Returns the tensors given to `work`, in order.
    """
    done: list[torch.Tensor] = []
    times: list[float] = []
    while bound is not None and len(times) < MOST_TIMES and (not times or is_slow(times, bound)):
        more = [row.clone() for row in given[len(done) : len(done) + IN_A_ROW]]
        times.append(timed(marks, work, more))
        done += more
    return done


def is_slow(times: list[float], bound: float) -> bool:
    """Whether some rank's shortest time is long. All ranks agree on it."""
    slow = torch.tensor([min(times) / bound > GOOD]).int()
    dist.all_reduce(slow, dist.ReduceOp.MAX)
    return bool(slow.item())


def timed(
    marks: tuple[str, str], work: Callable[[torch.Tensor], Any], tensors: list[torch.Tensor]
) -> float:
    """This rank's seconds."""
    barrier()
    started = perf_counter()
    mark(marks[0])
    for tensor in tensors:
        work(tensor)
    mark(marks[1])
    return perf_counter() - started


def pass_round(tensor: torch.Tensor) -> None:
    """The known good messages: the same number and length as a ring's, without additions."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    part = tensor[: len(tensor) // world_size]
    arrived = torch.empty_like(part)
    for _ in range(2 * (world_size - 1)):
        receive = irecv(arrived, (rank - 1) % world_size)
        send = isend(part, (rank + 1) % world_size)
        receive.wait()
        send.wait()


def own_calls(rank: RankEvidence) -> list[Call]:
    """The answer's calls: those of the drive have no line number of the answer."""
    return [call for call in rank.calls if call.line is not None]


def slow_because(ranks: tuple[RankEvidence, ...]) -> str:
    """The hint for links with idle time, from the order of each rank's first two calls."""
    found = set()
    for rank in ranks:
        begins = next(mark.at for mark in rank.marks if mark.name == TIMED[0])
        calls = [call for call in own_calls(rank) if call.issued >= begins][:2]
        if len(calls) == 2 and {call.operation for call in calls} == {"send", "recv"}:
            first, second = calls
            one_by_one = first.finished is not None and first.finished <= second.issued
            found.add("turns" if one_by_one else "late" if first.operation == "send" else "slow")
    return next((hint for hint in ("turns", "late") if hint in found), "slow")


def as_slow_once(messages: Evidence, seconds: float) -> bool:
    """Whether the known good messages took `seconds` too, at least once: the machine is busy."""
    return max(each_elapsed(messages, KNOWN)) >= seconds
