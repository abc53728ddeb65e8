"""What ranks recorded of their calls, and what the kernel counted on their links, held against each
other, both ways: calls that sent nothing, and bytes that no call sent.
"""

from hpml.checks.budget import HEADERS, SETUP_PER_PEER
from hpml.checks.contract import Problem
from hpml.ranks.evidence import Evidence
from hpml.ranks.wire import sent_bytes

PER_CALL = 600  # bytes that a call may send besides its payload: headers of short messages
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
        more = SETUP_PER_PEER * peers + PER_CALL * len(rank.calls) + ACKNOWLEDGED * received
        if sent > HEADERS * said + more:
            return Problem(f"{seen}, which no call accounts for", LEDGER)
    return None
