"""An all-reduce timed over a slow link, and messages that are known to use the link well.

The two are timed in launches of their own: in the one with the messages there is no answer, which
could slow them. Functions are imported by name, so that they are bound before the answer can
replace them in their modules. They are sent to the ranks by value.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import irecv, isend

from hpml.modules.m01_parallel_sgd.checks import _rounds as rounds
from hpml.modules.m01_parallel_sgd.checks._rounds import Rounds, each_round
from hpml.ranks.evidence import Evidence, RankEvidence
from hpml.ranks.parent.serving import Server

IN_A_ROW = 3  # tensors in a round, sent one after the other
MOST_TIMES = 4  # rounds if it was slow: the machine may have been busy
GOOD = 1.25  # times the bound, or the known good messages' time; below this, not timed again


def time_over_link(work: Callable[[torch.Tensor], Any], given: torch.Tensor) -> list[torch.Tensor]:
    """On a rank: `work` for the next IN_A_ROW of `given`'s rows in each round.

    Returns the tensors given to `work`, in order.
    """
    done: list[torch.Tensor] = []

    def next_rows() -> None:
        more = [row.clone() for row in given[len(done) : len(done) + IN_A_ROW]]
        for tensor in more:
            work(tensor)
        done.extend(more)

    each_round(next_rows)
    return done


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: rounds while they take longer than the ranks' `bound`, in seconds; none
    where that is None."""
    bound = ranks[0]["bound"]

    def wanted(seconds: Sequence[float]) -> bool:
        slow = bound is not None and min(seconds, default=2 * GOOD * bound) > GOOD * bound
        return slow and len(seconds) < MOST_TIMES

    sent = [{name: value for name, value in rank.items() if name != "bound"} for rank in ranks]
    return sent, Rounds(len(ranks), wanted)


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


def slow_because(ranks: tuple[RankEvidence, ...]) -> str:
    """The hint for links with idle time, from the order of each rank's first two calls."""
    found = set()
    for rank in ranks:
        begins = next((begin for begin, _ in rounds.spans(rank)), 0.0)
        calls = [call for call in rank.calls if call.issued >= begins][:2]
        if len(calls) == 2 and {call.operation for call in calls} == {"send", "recv"}:
            first, second = calls
            one_by_one = first.finished is not None and first.finished <= second.issued
            found.add("turns" if one_by_one else "late" if first.operation == "send" else "slow")
    return next((hint for hint in ("turns", "late") if hint in found), "slow")


def as_slow_once(messages: Evidence, seconds: float) -> bool:
    """Whether the known good messages took `seconds` too, at least once: the machine is busy."""
    return max(rounds.seconds(messages)) >= seconds
