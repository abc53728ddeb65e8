"""Whether ranks told each other their gradients, and no more, by the kernel's count of bytes.

Nothing of it is a rank's own word. It says how much went over the links, and not what: a rank
that sends other things has to send as many bytes.
"""

from hpml.checks.budget import HEADERS, SETUP_PER_PEER
from hpml.checks.chatter import chatter
from hpml.checks.contract import Problem
from hpml.ranks.evidence import Evidence

TRAVEL = "travel"  # the hint's key, in run_check.GENERAL_HINTS
AT_THE_START = 8  # times a gradient's bytes, to each other rank: weights and an optimizer's state
NEGOTIATIONS = 60_000  # bytes to each other rank; 35 kB were seen


def wrong_traffic(evidence: Evidence, nbytes: int, steps: int) -> Problem | None:
    """Whether each rank sent its gradient, of `nbytes`, in each of `steps` steps, or much more.

    Other ranks need all of a rank's gradient, so that it sends `nbytes` at least. An all-reduce
    sends 2 (p-1)/p of it; up to twice what it takes to send it to every other rank is allowed. None
    as well where the launch had no link.
    """
    peers = evidence.world_size - 1
    for rank in evidence.ranks:
        if rank.traffic is None or not peers:
            return None
        sent, least = rank.traffic.sent_bytes, nbytes * steps
        seen = f"rank {rank.rank} sent {sent / 1e3:.0f} kB to the others"
        if sent < least:
            return Problem(f"{seen}: not all gradients of {steps} steps can be among them", TRAVEL)
        most = HEADERS * 2 * peers * nbytes * (steps + AT_THE_START)
        most += (SETUP_PER_PEER + NEGOTIATIONS) * peers + chatter(evidence)
        if sent > most:
            return Problem(f"{seen}; {steps} gradients are {least / 1e3:.0f} kB", TRAVEL)
    return None
