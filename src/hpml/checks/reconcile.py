"""What ranks recorded of their calls, and what the kernel counted on their links, held against each
other, both ways: calls that sent nothing, and bytes that no call sent.
"""

from hpml.checks.budget import HEADERS
from hpml.checks.contract import Problem
from hpml.ranks.evidence import Evidence
from hpml.ranks.wire import sent_bytes

# Bytes that a rank sends besides payload, for each other rank: to meet it (over TCP 4 kB were
# seen), and in a call, whose short messages, headers and acknowledgements took 1.1 kB.
MEETING, PER_CALL = 6_000, 1_200
ACKNOWLEDGED = 0.05  # bytes sent for each byte received
LEDGER = "ledger"  # the hint's key, in run_check.GENERAL_HINTS


def unreconciled(evidence: Evidence) -> Problem | None:
    """The first rank whose calls and whose link's traffic do not fit, or None.

    None as well without a link, and with Horovod, whose ranks exchange small messages all the time.
    """
    peers = evidence.world_size - 1
    for rank in evidence.ranks:
        if rank.traffic is None or not peers or any(call.tensor for call in rank.calls):
            continue
        said = sum(sent_bytes(call, rank.rank) for call in rank.calls)
        sent, received = rank.traffic.sent_bytes, rank.traffic.received_bytes
        seen = f"rank {rank.rank}'s calls send {said:.0f} bytes to other ranks, and {sent} left it"
        if sent < said:
            return Problem(f"{seen}: not all that was recorded has travelled", LEDGER)
        more = (MEETING + PER_CALL * len(rank.calls)) * peers + ACKNOWLEDGED * received
        if sent > HEADERS * said + more:
            return Problem(f"{seen}, which no call accounts for", LEDGER)
    return None
