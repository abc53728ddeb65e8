"""Ranks in a sentence: those that are alike together, each verb in its form, and their lines."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from hpml.ranks.parent.ledger import RankLog

Key = TypeVar("Key")


def by(logs: Iterable[RankLog], key: Callable[[RankLog], Key]) -> list[tuple[Key, list[int]]]:
    return alike({log.rank: key(log) for log in logs})


def alike(keys: Mapping[int, Key]) -> list[tuple[Key, list[int]]]:
    """Each of the keys, which are by rank, with the ranks that have it."""
    groups: dict[Key, list[int]] = {}
    for rank, key in keys.items():
        groups.setdefault(key, []).append(rank)
    return list(groups.items())


def form(numbers: Sequence[int], one: Any, many: Any) -> Any:
    return one if len(numbers) == 1 else many


def ranks(numbers: Sequence[int]) -> str:
    """ "rank 1", "ranks 0 and 2", "ranks 0, 1 and 3"."""
    names = [str(rank) for rank in sorted(numbers)]
    if len(names) == 1:
        return f"rank {names[0]}"
    return f"ranks {', '.join(names[:-1])} and {names[-1]}"


def listing(told: Iterable[tuple[str, list[int]]], one: str = "", many: str = "") -> str:
    """ "rank 0 waits for 4 ranks, ranks 1 and 2 for 3": what is `told` of whom; the verb, where
    there is one, is said once."""
    parts: list[str] = []
    for text, numbers in told:
        verb = "" if parts or not one else f"{form(numbers, one, many)} "
        parts.append(f"{ranks(numbers)} {verb}{text}")
    return ", ".join(parts)


def at_line(line: int | None, lines_of: str) -> str:
    """ " at line 7 of your answer"; nothing where the line is not known."""
    return f" at line {line} {lines_of}" if line else ""


def in_line(line: int | None, lines_of: str) -> str:
    """ " (line 7 of your answer)"; nothing where the line is not known."""
    return f" (line {line} {lines_of})" if line else ""
