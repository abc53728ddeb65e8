"""Messages between two ranks, as the ledger has them: which send meets which receive.

Messages from one rank to another, in one group and with one tag, meet in order: the k-th send and
the k-th receive. Those to a rank that also receives from any source cannot be paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hpml.ranks.evidence import ANYONE, Call
from hpml.ranks.parent.ledger import RankLog


@dataclass(frozen=True)
class Place:
    """Where a message is among those that can meet it."""

    group: tuple[int, ...]
    sender: int
    receiver: int
    tag: int
    sequence: int


def place_of(rank: int, call: Call) -> Place | None:
    """The place of a send or a receive that `rank` made; None for any other call, and for a receive
    from any source."""
    if call.peer is None or call.peer == ANYONE:
        return None
    sender, receiver = (rank, call.peer) if call.operation == "send" else (call.peer, rank)
    return Place(call.group, sender, receiver, call.tag, call.sequence)


def fits(sent: Call, received: Call) -> bool:
    """Whether a message fits the tensor that it arrives in. Gloo takes a shorter one, ends the
    process at a longer one, and knows nothing of dtypes."""
    return sent.nbytes <= received.nbytes and (sent.dtype == received.dtype or not sent.nbytes)


class Meetings:
    """The messages of all ranks, paired as they come."""

    def __init__(self, logs: Sequence[RankLog] = ()) -> None:
        self._sent: dict[Place, Call] = {}
        self._received: dict[Place, Call] = {}
        for log in logs:
            for call in log.calls:
                self.add(log.rank, call)

    def add(self, rank: int, call: Call) -> tuple[Call, Call] | None:
        """Add a call; returns send and receive if it is a message whose other side has come."""
        place = place_of(rank, call)
        if place is None:
            return None
        (self._sent if call.operation == "send" else self._received)[place] = call
        sent, received = self._sent.get(place), self._received.get(place)
        return (sent, received) if sent and received else None

    def misfits(self) -> list[tuple[Place, Call, Call]]:
        """Place, send and receive of each message that does not fit where it arrives."""
        return [
            (place, sent, received)
            for place, sent in self._sent.items()
            if (received := self._received.get(place)) and not fits(sent, received)
        ]


def first_misfit(logs: Sequence[RankLog]) -> tuple[Place, Call, Call] | None:
    """The first message that does not fit where it arrives, by when both sides were there."""
    anyone = {(log.rank, call.tag) for log in logs for call in log.calls if call.peer == ANYONE}
    found = [
        misfit
        for misfit in Meetings(logs).misfits()
        if (misfit[0].receiver, misfit[0].tag) not in anyone
    ]
    return min(found, key=lambda misfit: max(misfit[1].issued, misfit[2].issued), default=None)


def never_waited_for(log: RankLog, logs: Sequence[RankLog]) -> tuple[int, Call] | None:
    """The rank and its call that would complete the message that `log`'s rank waits for, where that
    rank has not waited for it yet: an isend or irecv whose handle may be lost."""
    if log.pending is None or (place := place_of(log.rank, log.pending)) is None:
        return None
    other = place.sender if log.pending.operation == "recv" else place.receiver
    for call in next((each.calls for each in logs if each.rank == other), ()):
        if call.operation != log.pending.operation and place_of(other, call) == place:
            lost = call.waited is None and call.finished is None
            return (other, call) if lost else None
    return None
