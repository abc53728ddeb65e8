"""Where ranks are to meet: whether what they ask for goes together, and what each asks for.

They meet where all name one place and one size, and each number below it is taken once.
"""

from collections.abc import Sequence

from hpml.ranks.evidence import MEETING, Call, Meeting
from hpml.ranks.parent import words
from hpml.ranks.parent.ledger import RankLog


def can_meet(call: Call, logs: Sequence[RankLog]) -> bool:
    """Whether all that `call` waits for have come to its place, and each as another rank."""
    assert call.meets is not None
    found = [other for log in logs if (other := _same_meeting(log, call)) is not None]
    numbers = [other.rank for other in found]
    if call.operation == "TCPStore":  # which numbers nobody but its master
        return 0 in numbers and len(found) >= call.meets.size
    return sorted(numbers, key=str) == sorted(range(call.meets.size), key=str)


def _same_meeting(log: RankLog, call: Call) -> Meeting | None:
    """What the rank asks for, or asked for in its time, at the place of `call`."""
    assert call.meets is not None
    for other in [log.pending] if _waits(log) and log.pending else log.calls:
        if other.meets is None or other.operation != call.operation:
            continue
        store = call.operation == "TCPStore"
        alike = _may_be_one_place if store else _may_be_one_meeting
        now = store or other is log.pending or other.sequence == call.sequence
        if now and alike(other.meets, call.meets):
            return other.meets
    return None


def _may_be_one_meeting(one: Meeting, other: Meeting) -> bool:
    return one.size == other.size and _may_be_one_place(one, other)


def _may_be_one_place(one: Meeting, other: Meeting) -> bool:
    unknown = not one.machine or not other.machine
    return one.port == other.port and (unknown or one.machine == other.machine)


def apart(logs: Sequence[RankLog]) -> bool:
    """Whether all ranks have come to where they are to meet, and wait there. Some may have met, if
    they asked for something else than the others."""
    calls = [_latest(log) for log in logs]
    here = [call for call in calls if call is not None]
    if len(here) < len(logs) or any(log.end is None and not _waits(log) for log in logs):
        return False
    met = [call.meets for log, call in zip(logs, here, strict=True) if not _waits(log)]
    return not met or any(
        one is not None and call.meets is not None and not _may_be_one_meeting(one, call.meets)
        for one in met
        for call in here
    )


def _waits(log: RankLog) -> bool:
    return log.pending is not None and log.pending.operation in MEETING


def _latest(log: RankLog) -> Call | None:
    """Where the rank is to meet the others, or met some of them."""
    return next((call for call in reversed(log.calls) if call.operation in MEETING), None)


def asked(logs: Sequence[RankLog], lines_of: str) -> list[str]:
    """Of ranks that are `apart`: for how many each waits, where, as which rank; and what keeps them
    apart, as far as it is known."""
    calls = [(log, call) for log in logs if (call := _latest(log)) is not None]
    parts = []
    for (operation, line), ranks in words.by(filter(_waits, logs), _where):
        waits = words.listing(
            words.by([log for log in logs if log.rank in ranks], _for), "waits", "wait"
        )
        parts.append(f"{waits} in {operation}{words.in_line(line, lines_of)}")
    if met := [log for log in logs if not _waits(log)]:
        parts.append(words.listing(words.by(met, _for), "asked", "asked"))
    known = {log.rank: call.meets for log, call in calls if call.meets is not None}
    machines = {(meets.address, meets.machine) for meets in known.values()}
    addresses = {address for address, _ in machines}
    if len(addresses) == 1 and len(machines) > 1:
        parts.append(f"{min(addresses)} is another machine on each of them")
    if all(call.operation == "TCPStore" for _, call in calls):
        if all(meets.rank is None for meets in known.values()):
            parts.append("none of them is its master")
    elif any(rank != meets.rank for rank, meets in known.items()):
        come = [log for log in logs if log.rank in known]
        ranks = words.by(come, lambda log: f"as rank {known[log.rank].rank}")
        parts.append(words.listing(ranks, "comes", "come"))
    sizes = {len(call.group) for _, call in calls}
    if len(addresses) == 1 and len(sizes) == 1 and min(sizes) > len(logs):
        parts.append(f"there {'is' if len(logs) == 1 else 'are'} {_count(len(logs))} in all")
    elif len(logs) > 1:
        parts.append("all have come, and do not meet")
    elif len(parts) == 1:
        parts.append("nobody answers there")
    return parts


def _where(log: RankLog) -> tuple[str, int | None]:
    call = _latest(log)
    return ("", None) if call is None else (call.operation, call.line)


def _for(log: RankLog) -> str:
    call = _latest(log)
    assert call is not None
    where = f" at {call.meets.address}" if call.meets is not None else ""
    return f"for {_count(len(call.group))}{where}"


def _count(ranks: int) -> str:
    return f"{ranks} rank{'s' * (ranks != 1)}"
