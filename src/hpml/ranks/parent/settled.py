"""Whether what ranks have called so far is over: no call to come can belong to one of those."""

from collections import Counter
from collections.abc import Sequence

from hpml.ranks.evidence import ANYONE
from hpml.ranks.parent.ledger import RankLog


def settled(logs: Sequence[RankLog]) -> bool:
    """Whether every call is complete on all ranks that it takes, as far as the ledgers have it.

    False where that is not known: what a rank receives from any source can be paired with no send.
    """
    collectives: Counter[tuple] = Counter()
    sent: Counter[tuple] = Counter()
    received: Counter[tuple] = Counter()
    for log in logs:
        for call in log.calls:
            if call.finished is None or call.peer == ANYONE:
                return False
            if call.peer is None:
                collectives[call.group, call.operation, call.tensor, call.sequence] += 1
            elif call.operation == "send":
                sent[call.group, log.rank, call.peer, call.tag] += 1
            else:
                received[call.group, call.peer, log.rank, call.tag] += 1
    whole = all(count == len(key[0]) for key, count in collectives.items())
    return whole and sent == received and not any(log.grouping for log in logs)
