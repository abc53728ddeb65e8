"""What the lecture finds in all-reduces that it timed and counted, beside the α–β model.

Times are those of the ranks of one machine that may have fewer cores: they are shown beside the
model, and nothing is asked of them that rests on the cores.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hpml.modules.m01_parallel_sgd.lecture.findings import near
from hpml.predict.draw import Series

FAR = 1.5  # times the model: to be seen in the plot
Panel = Mapping[str, Series]
Sent = tuple[int, int, int, int]  # source, destination, messages, bytes


class Order(NamedTuple):
    """Seconds by algorithm, measured and by the model; those that the model has first."""

    taken: Mapping[str, float]
    model: Mapping[str, float]
    expected: Sequence[str]

    @property
    def first(self) -> str:
        return min(self.taken, key=self.taken.__getitem__)

    @property
    def last(self) -> str:
        return max(self.taken, key=self.taken.__getitem__)

    @property
    def held(self) -> bool:
        return self.first in self.expected


def order(panel: Panel, nbytes: int) -> Order:
    """Of the algorithms that were measured for that size."""
    taken = {name: one.measured[nbytes] for name, one in panel.items() if nbytes in one.measured}
    model = {name: panel[name].model(nbytes) for name in taken}
    return Order(taken, model, near(model))


class Misses(NamedTuple):
    """How far the model is off. `large`: at most, from 1 MB on, by the median over the algorithms.

    `small`: measured time over the model's, by algorithm, for the least size.
    """

    large: float
    small: Mapping[str, float]

    @property
    def low(self) -> str:
        return min(self.small, key=self.small.__getitem__)

    @property
    def high(self) -> str:
        return max(self.small, key=self.small.__getitem__)

    @property
    def above(self) -> bool:
        return self.small[self.high] > FAR

    @property
    def below(self) -> bool:
        return self.small[self.low] < 1 / FAR

    @property
    def held(self) -> bool:
        return self.large < 0.4


def misses(panel: Panel, sizes: Sequence[int]) -> Misses:
    """Of the algorithms of a panel that were measured."""
    ratios = {n: ratios_to_model(panel, n) for n in sizes}
    errors = [
        float(np.median([abs(1 / ratio - 1) for ratio in by_name.values()]))
        for n, by_name in ratios.items()
        if n >= 1e6 and by_name
    ]
    return Misses(max(errors), ratios[min(sizes)])


def ratios_to_model(panel: Panel, nbytes: int) -> dict[str, float]:
    """Measured time over the model's, by algorithm."""
    return {
        name: one.measured[nbytes] / one.model(nbytes)
        for name, one in panel.items()
        if one.model and nbytes in one.measured
    }


class Choice(NamedTuple):
    """Which algorithms send as a library's own choice does, and what rank 0 sends with it: how
    many messages, and how many times its bytes."""

    followed: Sequence[str]
    messages: int
    times: float


def choice(sent: Sequence[Sent], nbytes: int, known: Mapping[str, Sequence[Sent]]) -> Choice:
    """`sent`: what the library sends for `nbytes`; `known`: what algorithms send, for any bytes.

    An algorithm is followed where as many messages go from each rank to each other.
    """

    def pairs(messages: Sequence[Sent]) -> list[tuple[int, int, int]]:
        return [(source, to, count) for source, to, count, _ in messages]

    mine = [(count, size) for source, _, count, size in sent if source == 0]
    return Choice(
        [name for name, other in known.items() if pairs(other) == pairs(sent)],
        sum(count for count, _ in mine),
        sum(size for _, size in mine) / nbytes,
    )


class Cost(NamedTuple):
    """How many times as long as its `quickest` algorithm a library's own choice takes."""

    quickest: str
    times: float


def choice_costs(series: Panel, nbytes: int) -> Cost:
    """Of Open MPI's algorithms in `series`, "Open MPI, ring", beside "Open MPI, default"."""
    taken = {
        name.removeprefix("Open MPI, "): one.measured[nbytes]
        for name, one in series.items()
        if name.startswith("Open MPI, ")
    }
    by_choice = taken.pop("default")
    quickest = min(taken, key=taken.__getitem__)
    return Cost(quickest, by_choice / taken[quickest])


def below_bound(series: Panel, bound: Callable[[float], float]) -> list[str]:
    """Points that are quicker than the link's rate allows: "ring 10 kB"."""
    return [
        f"{name} {n / 1e3:g} kB"
        for name, one in series.items()
        for n, seconds in one.measured.items()
        if seconds < 0.95 * bound(n)
    ]


def ms(seconds: float) -> str:
    """ "8.07 ms": three digits."""
    return f"{float(f'{1e3 * seconds:.3g}'):g} ms"
