"""A schedule followed in one process, with numbers or whatever else can be added up."""

from collections.abc import Sequence
from typing import TypeVar

from hpml.allreduce.transfers import Schedule, Step

Value = TypeVar("Value")  # with +


def replay(schedule: Schedule, values: Sequence[Sequence[Value]]) -> list[list[Value]]:
    """What each rank has of each part at the end; `values[rank][part]` is what it begins with.

    Raises ValueError where a step does not say what it leaves: where a rank replaces what another
    transfer of that step reads, adds to or replaces there, or adds to what it sends.
    """
    state = [list(parts) for parts in values]
    for number, step in enumerate(schedule.steps):
        _hold(number, step)
        before = [list(parts) for parts in state]
        for transfer in step:
            mine, theirs = state[transfer.destination], before[transfer.source]
            for part in range(transfer.first, transfer.last):
                mine[part] = mine[part] + theirs[part] if transfer.adds else theirs[part]
    return state


def _hold(number: int, step: Step) -> None:
    read = {(t.source, part) for t in step for part in range(t.first, t.last)}
    written: dict[tuple[int, int], bool] = {}
    for transfer in step:
        for part in range(transfer.first, transfer.last):
            place = (transfer.destination, part)
            clash = place in written and not (transfer.adds and written[place])
            if place in read or clash:
                raise ValueError(
                    f"step {number}: rank {place[0]}'s part {part} changes while it is in use"
                )
            written[place] = transfer.adds
