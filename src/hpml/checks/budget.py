"""Budgets: what a run may cost in bytes, messages and seconds, against bounds from theory.

Each function compares a stage's evidence with a bound that its caller computed (see
`hpml.predict.collectives`), and returns None, a Problem that gives both figures, or CannotJudge
where the launch had no network to count on.
"""

from collections.abc import Callable, Sequence

from hpml.checks.contract import CannotJudge, Problem
from hpml.network.link import format_rate
from hpml.ranks.evidence import Call, Evidence

# Above the payload, on the kernel's counters: headers, at most 66 bytes for 1448 of payload, and
# acknowledgements of what comes back, 66 bytes for two packets or more.
HEADERS = 1.07
# Bytes per rank for what is no payload: finding the others, greeting each of them, and barriers.
SETUP_PER_PEER = 16_000


def no_network(evidence: Evidence) -> CannotJudge | None:
    """CannotJudge where the launch had no emulated network, whose link would be measured."""
    if evidence.link is not None:
        return None
    why = evidence.no_link or "the launch had no link"
    return CannotJudge(f"the network is not emulated on this machine: {why}")


def elapsed(evidence: Evidence, between: tuple[str, str]) -> float:
    """Seconds between two marks; where ranks set them several times, the shortest."""
    return min(each_elapsed(evidence, between))


def each_elapsed(evidence: Evidence, between: tuple[str, str]) -> list[float]:
    """Seconds from the first rank's first mark to the last rank's second, each time."""
    begun, done = (
        zip(*([m.at for m in rank.marks if m.name == name] for rank in evidence.ranks), strict=True)
        for name in between
    )
    return [max(last) - min(first) for first, last in zip(begun, done, strict=True)]


def over_bytes(
    evidence: Evidence,
    bounds: Sequence[float],
    hint: str,
    slack: float = 1.05,
    besides: float = 0.0,
) -> Problem | CannotJudge | None:
    """Whether a rank sent more over its link than `slack` times its bound, in bytes of payload.

    `bounds` has one item per rank. What the protocol adds is allowed for: HEADERS, and
    SETUP_PER_PEER for each other rank. `besides` are bytes that the drive itself had each rank
    send, for a reference say.
    """
    if missing := no_network(evidence):
        return missing
    peers = evidence.world_size - 1
    for rank, bound in zip(evidence.ranks, bounds, strict=True):
        most = HEADERS * (slack * bound + besides) + SETUP_PER_PEER * peers
        if rank.traffic.sent_bytes > most:
            return Problem(
                f"rank {rank.rank} sent {_size(rank.traffic.sent_bytes)} over its link, by the "
                f"kernel's count; {_size(bound + besides)} are enough, {_size(most)} with what the "
                "protocol adds",
                hint,
            )
    return None


def over_messages(
    evidence: Evidence, most: int, hint: str, counts: Callable[[Call], bool] = lambda call: True
) -> Problem | None:
    """Whether a rank made more than `most` of the calls for which `counts` is true."""
    for rank in evidence.ranks:
        made = sum(map(counts, rank.calls))
        if made > most:
            return Problem(f"rank {rank.rank} sent {made} messages; {most} are enough", hint)
    return None


def over_seconds(
    evidence: Evidence,
    between: tuple[str, str],
    bound: float,
    hint: str,
    slack: float = 1.25,
    reference: tuple[str, str] | None = None,
) -> Problem | CannotJudge | None:
    """Whether what lies between two marks took longer over the link than `slack` times `bound`.

    From the first rank's first mark to the last rank's second, in seconds; where ranks set these
    marks several times, the shortest time counts. With a `reference`, two marks around something
    known that has the same bound, done in the same launch: where that took longer than the bound,
    on a busy machine say, its time is the measure instead.
    """
    if missing := no_network(evidence):
        return missing
    took = elapsed(evidence, between)
    measure = bound if reference is None else max(bound, elapsed(evidence, reference))
    if took <= slack * measure:
        return None
    known = "" if measure == bound else f", and {measure:.2f} s a known good way in the same run"
    return Problem(
        f"it took {took:.2f} s over {format_rate(evidence.link.rate)}; the bytes that must travel "
        f"take {bound:.2f} s{known}",
        hint,
    )


def _size(nbytes: float) -> str:
    return f"{nbytes / 1e6:.2f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.0f} kB"
