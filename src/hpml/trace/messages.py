"""Messages between ranks: the ledgers' sends and receives, matched."""

from dataclasses import dataclass

from hpml.ranks.evidence import ANYONE, Call, Evidence


@dataclass(frozen=True)
class Message:
    """One message between two ranks. Times are those of `Call`, in seconds.

    `sent` is when the sender issued its send, `received` when the receiver noticed that its call
    was complete (for a non-blocking call: when it had waited for it), None if it never did.
    `send` and `recv` are the indices of the two calls in their ranks' ledgers; `recv` is None where
    the receiver never made one.
    """

    sender: int
    receiver: int
    tag: int
    nbytes: int
    sent: float
    received: float | None
    send: int = 0
    recv: int | None = None


def messages(evidence: Evidence) -> list[Message]:
    """Every message that was sent point to point, in the order of sending.

    Messages from one rank to another under one tag arrive in the order in which they were sent
    (MPI 4.1, section 3.5), so the k-th send belongs to the k-th receive. What collectives send
    inside is not part of the ledger; `RankEvidence.traffic` has its bytes.

    Raises ValueError where a rank receives from any source: its ledger has no sender then.
    """
    received: dict[tuple, Call] = {}
    for rank in evidence.ranks:
        for call in rank.calls:
            if call.operation == "recv":
                sender, tag = _peer(rank.rank, call)
                received[call.group, sender, rank.rank, tag, call.sequence] = call
    found = []
    for rank in evidence.ranks:
        for call in rank.calls:
            if call.operation == "send":
                receiver, tag = _peer(rank.rank, call)
                match = received.get((call.group, rank.rank, receiver, tag, call.sequence))
                arrived = None if match is None else match.finished
                posted = None if match is None else match.index
                found.append(
                    Message(
                        rank.rank,
                        receiver,
                        tag,
                        call.nbytes,
                        call.issued,
                        arrived,
                        call.index,
                        posted,
                    )
                )
    return sorted(found, key=lambda message: message.sent)


def _peer(rank: int, call: Call) -> tuple[int, int]:
    """The other rank and the tag."""
    if call.peer is None or call.peer == ANYONE:
        raise ValueError(
            f"rank {rank}, call {call.index}: a {call.operation} {call.detail} cannot be matched: "
            "name the sender in the receive"
        )
    return call.peer, call.tag
