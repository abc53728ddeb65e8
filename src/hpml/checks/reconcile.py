"""What ranks recorded of their calls, and what the kernel counted on their links, held against each
other, both ways: calls that sent nothing, and bytes that no call sent.
"""

from hpml.checks.budget import HEADERS
from hpml.checks.chatter import chatter
from hpml.checks.contract import Problem
from hpml.ranks.evidence import Call, Evidence
from hpml.ranks.parent.wire import sent_bytes

# Bytes that a rank sends besides payload, for each other rank: to meet it (over TCP 4 kB were
# seen), and in a call, whose short messages, headers and acknowledgements took 1.1 kB. Horovod's
# ranks meet three times, and negotiate each tensor, by its name.
MEETING, PER_CALL = 6_000, 1_200
ACKNOWLEDGED = 0.05  # bytes sent for each byte received
UNEQUAL = ("allgather", "alltoall", "reducescatter")
LEDGER = "ledger"  # the hint's key, in run_check.GENERAL_HINTS


def unreconciled(evidence: Evidence) -> Problem | None:
    """The first rank whose calls and whose link's traffic do not fit, or None, as without a link.

    Horovod's ranks also exchange small messages all the time (see `hpml.checks.chatter`): what they
    may send besides their calls grows with the seconds of the launch.
    """
    peers = evidence.world_size - 1
    horovod = any(call.tensor for rank in evidence.ranks for call in rank.calls)
    for rank in evidence.ranks:
        if rank.traffic is None or not peers:
            continue
        recorded = sum(sent_bytes(call, rank.rank) for call in rank.calls if certain(call))
        sent, received = rank.traffic.sent_bytes, rank.traffic.received_bytes
        seen = (
            f"rank {rank.rank}'s calls send {recorded:.0f} bytes to other ranks, and {sent} left it"
        )
        if sent < recorded:
            return Problem(f"{seen}: not all that was recorded has travelled", LEDGER)
        more = (MEETING + PER_CALL * len(rank.calls)) * peers + ACKNOWLEDGED * received
        if horovod:
            recorded += passed_on(evidence)
            more += 2 * MEETING * peers + chatter(evidence)
        else:
            recorded += sum(sent_bytes(call, rank.rank) for call in rank.calls if not certain(call))
        if sent > HEADERS * recorded + more:
            return Problem(f"{seen}, which no call accounts for", LEDGER)
    return None


def certain(call: Call) -> bool:
    """Whether what a rank sends follows from its own call. Horovod's ranks may gather unequal
    parts, and a call whose end nobody awaited may not have sent all, or anything: a rank that
    raises between backward() and the waiting leaves such calls, as an answer may that refuses."""
    return call.finished is not None and not (call.tensor and call.operation.endswith(UNEQUAL))


def passed_on(evidence: Evidence) -> float:
    """The most that a rank sends for calls that are not `certain`: what all ranks' say together."""
    return sum(
        sent_bytes(call, rank.rank)
        for rank in evidence.ranks
        for call in rank.calls
        if not certain(call)
    )
