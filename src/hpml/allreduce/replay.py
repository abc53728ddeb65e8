"""Simulate a schedule in one process, with numbers or anything else that can be added up."""

from collections.abc import Sequence
from typing import TypeVar

from hpml.allreduce.transfers import Schedule, Step

Value = TypeVar("Value")  # with +


def replay(schedule: Schedule, values: Sequence[Sequence[Value]]) -> list[list[Value]]:
    """What each rank has of each part at the end; `values[rank][part]` is what it begins with.

    Raises ValueError where the result of a step would depend on the order of its transfers: where a
    part is replaced that another transfer of the step reads, adds to or replaces. A rank may add to
    a part that it sends: what arrives is added when the step's messages are done
    (`hpml.allreduce.execute`).
    """
    state = [list(parts) for parts in values]
    for number, step in enumerate(schedule.steps):
        _check_order(number, step)
        before = [list(parts) for parts in state]
        for transfer in step:
            mine, theirs = state[transfer.destination], before[transfer.source]
            for part in range(transfer.first, transfer.last):
                mine[part] = mine[part] + theirs[part] if transfer.adds else theirs[part]
    return state


def _check_order(number: int, step: Step) -> None:
    read = {(t.source, part) for t in step for part in range(t.first, t.last)}
    written: dict[tuple[int, int], bool] = {}
    for transfer in step:
        for part in range(transfer.first, transfer.last):
            place = (transfer.destination, part)
            clash = place in written and not (transfer.adds and written[place])
            if (place in read and not transfer.adds) or clash:
                raise ValueError(
                    f"step {number}: rank {place[0]}'s part {part} changes while it is in use"
                )
            written[place] = transfer.adds
