"""What `hpml.publish.conclude` takes of the grid of six factors: held, sentence, otherwise."""

import math
from collections.abc import Mapping, Sequence

from hpml.modules.m08_case_studies.lecture.input_rates import (
    BY_BATCH,
    FILES,
    KEPT,
    LOADERS,
    ONE_BY_ONE,
    PACKED,
    InputRates,
)
from hpml.modules.m08_case_studies.lecture.throughput_grid import (
    CORES,
    DISK,
    FACTORS,
    SHARED,
    AgainstOne,
    Grid,
    Rank,
    against_one,
)
from hpml.predict.published_scaling import table

Finding = tuple[bool, str, str]
BUSY = "That can be: this machine's cores and its disk have other work."


def of_input(rates: InputRates) -> Finding:
    """One core: for images of that size the format is worth more than the loader."""
    by_loader = _geometric(
        [rates.loading[BY_BATCH, f] / rates.loading[ONE_BY_ONE, f] for f in KEPT]
    )
    by_format = _geometric(
        [rates.loading[one, PACKED] / rates.loading[one, FILES] for one in LOADERS]
    )
    slow, fast = rates.loading[ONE_BY_ONE, FILES], rates.loading[BY_BATCH, PACKED]
    seen = (
        f"one core loads {slow:,.0f} images/s one by one from JPEG files, and {fast:,.0f} by batch "
        f"from packed pixels; in the mean the format is worth {by_format:.1f} times, the loader "
        f"{by_loader:.1f} times"
    )
    return (
        by_format > 2 and by_format > by_loader,
        f"**Answer.** The format: {seen}. A JPEG must be decoded, which is work for "
        "each pixel. The price of packed pixels is their size, "
        f"{rates.nbytes[PACKED] / 1e3:.0f} kB in place of {rates.nbytes[FILES] / 1e3:.0f} kB.",
        f"{seen}. {BUSY}",
    )


def of_compute(gpu: Rank, here: Rank) -> Finding:
    """Images/s of the two kinds of rank."""
    ratio = gpu.images_per_s["resnet50"] / here.images_per_s["resnet50"]
    seen = (
        f"with ResNet-50 in float32 {gpu.name} makes {gpu.images_per_s['resnet50']:.0f} images/s, "
        f"{here.name} {here.images_per_s['resnet50']:.1f} at most; in 16 bits {gpu.gain:.1f} and "
        f"{here.gain:.1f} times as many"
    )
    return (
        ratio > 5,
        f"**Answer.** Published and measured: {seen}. One GPU does the work of {ratio:.0f} cores.",
        f"{seen}: the two are hardly different.",
    )


def of_effects(grid: Grid) -> Finding:
    """Of a fast rank: the network matters most on a few ranks, storage on many."""
    sizes = sorted(grid.throughput)
    few, many = sizes[1], sizes[-1]
    (first, least), (second, most) = grid.largest(few), grid.largest(many)
    alone, by = grid.largest(sizes[0])
    seen = (
        f"the factor that moves throughput most is {alone} on one rank ({by:.1f} times, best level "
        f"against worst), {first} on {few} ({least:.0f} times), {second} on {many} "
        f"({most:.0f} times)"
    )
    loaders = max(grid.effect("loader", ranks) for ranks in sizes)
    return (
        (first, second) == ("network", "storage"),
        f"**Answer.** With {grid.rank.name} as the rank, {seen}. A rank of a ring sends twice its "
        "gradients, whatever the number of ranks; what one file server gives is shared out among "
        f"all. The loader brings {loaders - 1:.0%} at most, with {CORES} cores for each rank.",
        f"with {grid.rank.name} as the rank, {seen}.",
    )


def of_processors(fast: Grid, slow: Grid) -> Finding:
    """The same grid with a slow rank: everything around it matters less."""
    few, many = sorted(fast.throughput)[1], max(fast.throughput)
    name, by = slow.largest(few)
    near, far = (
        f"{slow.effect(factor, ranks):.1f} times on {ranks}, not {fast.effect(factor, ranks):.0f}"
        for factor, ranks in (("network", few), ("storage", many))
    )
    seen = (
        f"with {slow.rank.name} as the rank the network is worth {near}, and storage {far}; on "
        f"{few} ranks {name} is worth most, {by:.1f} times"
    )
    return (
        all(
            slow.effect(factor, ranks) < fast.effect(factor, ranks) / 2
            for factor, ranks in (("network", few), ("storage", many))
        ),
        f"**Answer.** No: {seen}. A slow rank hides everything around it, so do not carry what was "
        "found out on slow processors over to fast ones.",
        f"{seen}.",
    )


def of_interaction(grid: Grid, ranks: int) -> Finding:
    """What a fast network is worth, with either storage; and which pair depends most."""
    within = grid.effect_within("network", "storage", ranks)
    one, other, effects = grid.interaction(ranks)
    levels = ", ".join(f"{level} {effect:.1f} times" for level, effect in effects.items())
    most = "no other pair of factors depends on each other as much"
    if {one, other} != {"network", "storage"}:
        most = f"most depends what the {one} is worth on the {other}: {levels}"
    seen = (
        f"on {ranks} ranks {_rate(FACTORS['network'][-1])} in place of "
        f"{_rate(FACTORS['network'][0])} is worth "
        f"{within[DISK]:.0f} times with {DISK}, and {within[SHARED]:.1f} times with {SHARED}"
    )
    return (
        within[DISK] > 2 * within[SHARED],
        f"**Answer.** {seen[0].upper()}{seen[1:]}: whoever buys the network and leaves the server "
        f"as it is has bought little. Of those that one can choose, {most}.",
        f"{seen}.",
    )


def of_server(grid: Grid, faster: Grid, ranks: int) -> Finding:
    """The same ranks with a faster file server: storage is worth less, the network more."""
    storage, then = (one.effect("storage", ranks) for one in (grid, faster))
    name, most = faster.largest(ranks)
    seen = (
        f"on {ranks} ranks the {name} moves throughput most, {most:.0f} times; storage {then:.1f} "
        f"times, where it was {storage:.1f}"
    )
    return (
        name == "network" and then < storage / 2,
        f"**Answer.** Then {seen}. Which factor matters most on many ranks is decided by the "
        "server, so look up its two numbers before you choose a network.",
        f"{seen}.",
    )


def of_small_models(found: Sequence[AgainstOne], ranks: int, network: str) -> Finding:
    """`found` by FLOP per byte of gradients, the fewest first: its speed-ups ascend with them."""
    ups = [one.speed_up for one in found]
    by_bytes = sorted(found, key=lambda one: one.nbytes, reverse=True)
    slower = [one.model for one in found if one.speed_up < 1]
    few, many = (one.flop_per_byte for one in (found[0], found[-1]))
    listed = ", ".join(f"{one.model} {one.speed_up:.2f}" for one in found)
    seen = f"{ranks} ranks on {_rate(network)} are worth so many single ranks: {listed}"
    return (
        0 < len(slower) < len(found) and ups == sorted(ups) and by_bytes != list(found),
        f"**Answer.** {seen}. For {' and '.join(slower)} one rank is faster than {ranks}. The "
        f"order is that of the FLOP for each byte of gradients ({few:.0f} to {many:.0f} for an "
        "image), not that of the bytes. A model is small if it computes little for what it sends. "
        "It should not be distributed on such a network, or each rank needs many more images "
        "(section 2).",
        f"{seen}; slower than one rank: {', '.join(slower) or 'none'}.",
    )


def of_published_small(rank: Rank) -> Finding:
    """AlexNet and ResNet-50 on one cluster, as published: images/s over those of one rank; and what
    is foretold for two of `rank`."""
    up = {}
    for name in ("alexnet", "resnet50"):
        one, *more = table(f"daint-{name}-nccl")
        up[name] = {row.ranks: row.value / one.value for row in more}
    two, most, network = 2, max(up["alexnet"]), FACTORS["network"][-1]
    foretold = {one.model: one.speed_up for one in against_one(rank, network, two)}
    seen = (
        f"on Piz Daint (CSCS 2019, Cray Aries, a P100 and 64 images in each node) AlexNet makes "
        f"{up['alexnet'][two]:.2f} times the images/s of one GPU on {two}, and "
        f"{up['alexnet'][most]:.1f} times on {most}; ResNet-50 {up['resnet50'][two]:.2f} and "
        f"{up['resnet50'][most]:.1f} times"
    )
    return (
        up["alexnet"][two] < 1 < up["resnet50"][two],
        f"Published: {seen}. AlexNet on two GPUs is slower than on one, also on the network of a "
        f"supercomputer. For {_rate(network)} the predictor has {foretold['alexnet']:.2f} times on "
        f"two: the nominal rate of a network is the best case.",
        f"{seen}.",
    )


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


def of_pairs(pairs: Mapping[str, float], grid: Grid) -> Finding:
    """The largest of the published pairs is the loader's; the grid has decoding in the format."""
    most = max(pairs, key=pairs.__getitem__)
    own = grid.effect("format", min(grid.throughput))
    listed = "; ".join(f"{what}: {ratio:.1f} times" for what, ratio in pairs.items())
    return (
        most.startswith("loader"),
        f"**Answer.** {RANKS} GPUs with ResNet-50: {listed}. The loader was worth most: it decodes "
        "ImageNet's own files. In the grid that work is a part of the format, which is worth "
        f"{own:.1f} times on one rank with {CORES} cores.",
        f"{listed}.",
    )


def _rate(network: str) -> str:
    return network.replace("gbit", " Gbit/s")


def _geometric(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _on(name: str) -> float:
    return next(row.value for row in table(name) if row.ranks == RANKS)
