"""Budgets: the bytes, messages and seconds that a run may cost, from theoretical bounds.

Each function compares a stage's evidence with a bound that its caller computed (see
`hpml.predict.collectives`), and returns None, a Problem with both figures, or CannotJudge if the
launch had no emulated network to measure.
"""

from collections.abc import Sequence

from hpml.checks.contract import CannotJudge, Problem
from hpml.network.link import format_rate
from hpml.ranks.evidence import Evidence, Traffic

# What the kernel counts besides payload: headers, at most 66 bytes for 1448 of payload, and
# acknowledgements of received data, 66 bytes for two packets or more.
HEADERS = 1.07
# Of each packet, an acknowledgement too: Ethernet's 14 bytes, IP's 20, TCP's 20 and its 12 of time
# stamps. How many packets there are depends on how busy the machine is; what is in them does not.
HEADER = 66
# Bytes that each rank sends besides payload: rendezvous, connecting to each peer, and barriers.
SETUP_PER_PEER = 16_000


def no_network(evidence: Evidence) -> CannotJudge | None:
    """CannotJudge if the launch had no emulated network; else None."""
    if evidence.link is not None:
        return None
    why = evidence.no_link or "the launch had no link"
    return CannotJudge(f"the network is not emulated on this machine: {why}")


def elapsed(evidence: Evidence, between: tuple[str, str]) -> float:
    """Seconds from the first rank's first mark to the last rank's second mark; the shortest if
    ranks set them several times. For launches without an answer, which could move its marks."""
    begun, done = (
        zip(*([m.at for m in rank.marks if m.name == name] for rank in evidence.ranks), strict=True)
        for name in between
    )
    return min(max(last) - min(first) for first, last in zip(begun, done, strict=True))


def over_bytes(
    evidence: Evidence,
    bounds: Sequence[float],
    hint: str,
    slack: float = 1.07,
) -> Problem | CannotJudge | None:
    """Whether a rank sent more over its link than `slack` times its bound, in bytes of payload.

    `bounds` has one item per rank. The kernel counts what is sent twice, because it was taken for
    lost, which is what the slack is for; headers are taken off, and SETUP_PER_PEER is allowed for
    each other rank.
    """
    if missing := no_network(evidence):
        return missing
    peers = evidence.world_size - 1
    for rank, bound in zip(evidence.ranks, bounds, strict=True):
        most = slack * bound + SETUP_PER_PEER * peers
        assert rank.traffic is not None  # on a network it is counted
        if (sent := payload(rank.traffic)) > most:
            return Problem(
                f"rank {rank.rank} sent {_size(sent)} over its link, by the kernel's count of "
                f"packets without their headers; {_size(bound)} are enough, and "
                f"{_size(sent - most)} more than the protocol may add",
                hint,
            )
    return None


def payload(traffic: Traffic) -> int:
    """Bytes that were sent in packets, without headers."""
    return traffic.sent_bytes - HEADER * traffic.sent_packets


def over_seconds(
    evidence: Evidence,
    took: float,
    bound: float,
    hint: str,
    slack: float = 1.25,
    reference: float = 0.0,
) -> Problem | CannotJudge | None:
    """Whether it `took` longer over the launch's link than `slack` times `bound`, in seconds.

    `reference` are the seconds of known code with the same bound, in a launch without the answer:
    if it took longer than the bound, for example on a busy machine, its time replaces the bound.
    """
    if missing := no_network(evidence):
        return missing
    assert evidence.link is not None
    measure = max(bound, reference)
    if took <= slack * measure:
        return None
    known = "" if measure == bound else f", and {measure:.2f} s a known good way"
    return Problem(
        f"it took {took:.2f} s over {format_rate(evidence.link.rate)}; the bytes that must travel "
        f"take {bound:.2f} s{known}",
        hint,
    )


def _size(nbytes: float) -> str:
    if nbytes < 1e4:
        return f"{nbytes:.0f} bytes"
    return f"{nbytes / 1e6:.2f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.0f} kB"
