"""Groups that ranks make by `new_group`, which every rank calls for every group, in one order.

Groups are numbered by these calls, and members find each other by number: those that have called it
another number of times, or for other members, wait for each other without end.
"""

from collections.abc import Sequence

from hpml.ranks.parent import words
from hpml.ranks.parent.ledger import NewGroup, RankLog

RULE = "every rank calls new_group for every group, in one order, also for those that it is not in"


def can_be_made(log: RankLog, logs: Sequence[RankLog]) -> bool:
    """Whether the other members of the group that `log`'s rank makes have come to make it, too."""
    number, members = len(log.groups), log.groups[-1].members
    return all(
        other.groups[number - 1 : number] and other.groups[number - 1].members == members
        for other in logs
        if other.rank in members
    )


def differ(logs: Sequence[RankLog]) -> int:
    """The first call of new_group, from 1, that is not for the same members on all ranks that have
    made it; 0 where there is none."""
    most = max((len(log.groups) for log in logs), default=0)
    for number in range(1, most + 1):
        if len({log.groups[number - 1].members for log in logs if len(log.groups) >= number}) > 1:
            return number
    return 0


def missing(logs: Sequence[RankLog]) -> list[int]:
    """The ranks that have called it less often than others, where some wait in it."""
    counts = {log.rank: len(log.groups) for log in logs}
    waits = any(log.grouping and log.end is None for log in logs)
    return [rank for rank, count in counts.items() if waits and count < max(counts.values())]


def made(logs: Sequence[RankLog], lines_of: str) -> list[str]:
    """Which group each of these ranks, that wait in new_group, is making."""
    return [
        f"{words.ranks(ranks)} {words.form(ranks, 'makes', 'make')} a group of "
        f"{words.ranks(group.members)} (new_group{_at(group, lines_of)})"
        for group, ranks in words.by(logs, lambda log: log.groups[-1])
    ]


def broken(logs: Sequence[RankLog]) -> list[str]:
    """How the ranks' calls of new_group differ, where nothing moves any more."""
    late = missing(logs)
    if number := differ(logs):
        there = [log for log in logs if len(log.groups) >= number]
        told = words.by(there, lambda log: words.ranks(log.groups[number - 1].members))
        calls = ", ".join(f"{words.ranks(ranks)} for {members}" for members, ranks in told)
        return [f"call {number} of new_group is made by {calls}: {RULE}"]
    if not late:
        return []
    if any(log.groups for log in logs if log.rank in late):
        counts = words.by(logs, lambda log: len(log.groups))
        calls = ", ".join(f"{words.ranks(ranks)} {_times(count)}" for count, ranks in counts)
        return [f"new_group is called by {calls}: {RULE}"]
    return [f"{words.ranks(late)} never {words.form(late, 'calls', 'call')} new_group: {RULE}"]


def _at(group: NewGroup, lines_of: str) -> str:
    return f", line {group.line} {lines_of}" if group.line else ""


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")
