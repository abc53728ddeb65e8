"""What the grid of six factors comes to, beside what others published."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpml.modules.m08_case_studies.lecture.input_rates import (
    BY_BATCH,
    FILES,
    KEPT,
    LOADERS,
    ONE_BY_ONE,
    PACKED,
    InputRates,
)
from hpml.modules.m08_case_studies.lecture.throughput_grid import DISK, SHARED, AgainstOne, Grid
from hpml.predict.published_scaling import table


class InputWorth(NamedTuple):
    """What the format and the loader are worth in the geometric mean, times; images/s of the
    slowest way and of the fastest."""

    held: bool
    by_format: float
    by_loader: float
    slow: float
    fast: float


def input_worth(rates: InputRates) -> InputWorth:
    """One core: for images of that size the format is worth more than the loader."""
    each = rates.loading
    by_loader = _geometric([each[BY_BATCH, f] / each[ONE_BY_ONE, f] for f in KEPT])
    by_format = _geometric([each[one, PACKED] / each[one, FILES] for one in LOADERS])
    held = by_format > 2 and by_format > by_loader
    return InputWorth(held, by_format, by_loader, each[ONE_BY_ONE, FILES], each[BY_BATCH, PACKED])


class Largest(NamedTuple):
    """The factor that moves throughput most, and by how much, on each number of ranks; the most
    that the `loader` brings on any."""

    held: bool
    by_ranks: Mapping[int, tuple[str, float]]
    loader: float


def largest(grid: Grid) -> Largest:
    """Of a fast rank: the network matters most on a few ranks, storage on many."""
    by_ranks = {ranks: grid.largest(ranks) for ranks in sorted(grid.throughput)}
    _, (few, _), *_, (many, _) = by_ranks.values()
    loader = max(grid.effect("loader", ranks) for ranks in by_ranks)
    return Largest((few, many) == ("network", "storage"), by_ranks, loader)


def hides(slow: Grid, fast: Grid) -> bool:
    """Is everything around a slow rank worth less than half as much as around a fast one?"""
    few, many = sorted(fast.throughput)[1], max(fast.throughput)
    return all(
        slow.effect(factor, ranks) < fast.effect(factor, ranks) / 2
        for factor, ranks in (("network", few), ("storage", many))
    )


class Within(NamedTuple):
    """What the best network is worth over the worst, with either storage."""

    held: bool
    disk: float
    server: float


def network_within_storage(grid: Grid, ranks: int) -> Within:
    """Is a fast network worth more than twice as much if each node has a disk?"""
    within = grid.effect_within("network", "storage", ranks)
    return Within(within[DISK] > 2 * within[SHARED], within[DISK], within[SHARED])


class Server(NamedTuple):
    """With a faster server: the factor that moves throughput most, and what storage is worth."""

    held: bool
    name: str
    most: float
    before: float
    then: float


def faster_server(grid: Grid, faster: Grid, ranks: int) -> Server:
    """The same ranks with a faster file server: storage is worth less, the network more."""
    before, then = (one.effect("storage", ranks) for one in (grid, faster))
    name, most = faster.largest(ranks)
    return Server(name == "network" and then < before / 2, name, most, before, then)


def in_order(found: Sequence[AgainstOne]) -> bool:
    """Do speed-ups of `found`, by FLOP per byte, ascend with that, and not with the bytes?

    Some are below 1, and some are not.
    """
    ups = [one.speed_up for one in found]
    by_bytes = sorted(found, key=lambda one: one.nbytes, reverse=True)
    return min(ups) < 1 <= max(ups) and ups == sorted(ups) and by_bytes != list(found)


def on_piz_daint(model: str) -> dict[int, float]:
    """Images/s by ranks over those of one, as published: a P100 in each node (CSCS 2019)."""
    one, *more = table(f"daint-{model}-nccl")
    return {row.ranks: row.value / one.value for row in more}


# Tables in which one factor differs, and what is named besides: the better one first.
PAIRS = {
    "network: RDMA or TCP, four V100 a node (and the library)": (
        "azure-v100-resnet50-rdma",
        "azure-v100-resnet50-tcp",
    ),
    "precision: mixed or float32, V100 (and twice the batch)": (
        "dlperf-ngc-pytorch-amp",
        "dlperf-ngc-pytorch-fp32",
    ),
    "loader: 48 or 8 workers, V100": ("dlperf-pytorch-fp32", "dlperf-pytorch-few-workers"),
}
RANKS = 32


def published_pairs() -> dict[str, float]:
    """What a factor changed for others, on 32 GPUs with ResNet-50: images/s, better over worse."""
    return {what: _on(better) / _on(worse) for what, (better, worse) in PAIRS.items()}


def _geometric(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _on(name: str) -> float:
    return next(row.value for row in table(name) if row.ranks == RANKS)
