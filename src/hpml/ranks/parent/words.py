"""Ranks in a sentence: those that are alike together, and each verb in its form."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from hpml.ranks.parent.ledger import RankLog

Key = TypeVar("Key")


def by(logs: Iterable[RankLog], key: Callable[[RankLog], Key]) -> list[tuple[Key, list[int]]]:
    groups: dict[Key, list[int]] = {}
    for log in logs:
        groups.setdefault(key(log), []).append(log.rank)
    return list(groups.items())


def form(numbers: Sequence[int], one: Any, many: Any) -> Any:
    return one if len(numbers) == 1 else many


def ranks(numbers: Sequence[int]) -> str:
    """ "rank 1", "ranks 0 and 2", "ranks 0, 1 and 3"."""
    names = [str(rank) for rank in sorted(numbers)]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"
