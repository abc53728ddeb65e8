"""All settings of six factors, predicted: which of them moves the throughput of training most?

Network × model × precision × storage × loader × format, every level of each with every level of
the others (a full factorial design), on any number of ranks, by `hpml.predict.scaling`.

What one rank does alone is measured or published (`Rank`). What is assumed, the same everywhere:

- One rank in each node, `CORES` cores of which load; they load as many times as fast as one.
- Storage is a disk in each node, or one file server for all ranks (`Rank.server`), over a network
  of its own. Packed images are in files of `PACKED_IN` each. What has been read is not kept.
- In 16 bits a rank computes `Rank.gain` times as fast, and its gradients have half the bytes.
- The network reaches its nominal rate, and no rank is late.

Throughput is relative: images/s of all ranks over those of one rank with the same model in float32
that waits for nothing. So networks that differ in FLOP can be compared: it is how many such ranks
the cluster is worth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from hpml.modules.m08_case_studies.lecture.input_rates import FILES, KEPT, LOADERS, InputRates
from hpml.predict.hardware import part
from hpml.predict.interconnects import cost_of, nodes
from hpml.predict.model_layers import model
from hpml.predict.published_scaling import table
from hpml.predict.scaling import Input, Training, predict
from hpml.predict.storage_epoch import SharedStorage

RANKS = (1, 8, 64, 256)
CORES = 4
SERVER = SharedStorage(opens_per_second=2_000, latency=1e-3, bandwidth=1e9)  # of module 02
PACKED_IN = 1_000  # images in a file
DISK, SHARED = "a disk in each node", "one file server"
FLOAT32, HALF = "float32", "16 bits"
FACTORS: Mapping[str, tuple[str, ...]] = {
    "network": ("1gbit", "10gbit", "100gbit"),
    "model": ("alexnet", "vgg16", "resnet50"),
    "precision": (FLOAT32, HALF),
    "storage": (SHARED, DISK),
    "loader": LOADERS,
    "format": KEPT,
}
CHOSEN = tuple(factor for factor in FACTORS if factor != "model")
# A P100 in each node, 64 images on each: CSCS 2019, see published_scaling.csv.
PUBLISHED = {
    "alexnet": "daint-alexnet-nccl",
    "vgg16": "daint-vgg16-nccl",
    "resnet50": "daint-resnet50-nccl",
    "inception_v3": "daint-inception-v3-nccl",
}
BATCH = 64


class Setting(NamedTuple):
    """A level of each factor."""

    network: str
    model: str
    precision: str
    storage: str
    loader: str
    format: str


@dataclass(frozen=True)
class Rank:
    """What one rank does alone.

    `images_per_s` are those in float32, by model, `gain` how many times as fast it computes with 16
    bits. `input` is what was measured of one core and one disk, `server` what all ranks share.
    """

    name: str
    images_per_s: Mapping[str, float]
    gain: float
    input: InputRates
    server: SharedStorage = SERVER


def p100(measured: InputRates) -> Rank:
    """A P100 as published for one node of Piz Daint; with 16 bits by its peak rates, so at most."""
    alone = {name: table(published)[0].value for name, published in PUBLISHED.items()}
    peak = part("P100").tflops
    return Rank("a P100", alone, peak["fp16"] / peak["fp32"], measured)


def core(measured: InputRates, flops: float, gain: float) -> Rank:
    """One core, which computes with so many FLOP/s in float32. Backward is two forwards."""
    alone = {name: flops / (3 * model(name).flop) for name in PUBLISHED}
    return Rank("a core of this machine", alone, gain, measured)


def training(rank: Rank, setting: Setting, ranks: int) -> Training:
    """The setting as the predictor takes it."""
    half = setting.precision == HALF
    link = cost_of(setting.network)
    return Training(
        model(setting.model),
        images_per_s=rank.images_per_s[setting.model] * (rank.gain if half else 1.0),
        batch=BATCH,
        network=nodes(1, link, link),
        gradient_share=0.5 if half else 1.0,
        input=_input(rank, setting, ranks),
    )


def _input(rank: Rank, setting: Setting, ranks: int) -> Input:
    measured = rank.input
    loading = CORES * measured.loading[setting.loader, setting.format]
    if setting.storage == DISK:
        return Input(each=min(loading, measured.disk[setting.format]))
    images = 1_000_000  # any number: opens and bytes both grow with it
    files = images if setting.format == FILES else images // PACKED_IN
    nbytes = images * measured.nbytes[setting.format]
    seconds = rank.server.epoch_seconds(files, nbytes, clients=ranks * CORES)
    return Input(each=loading, shared=images / seconds)


@dataclass(frozen=True)
class Grid:
    """Relative throughput of every setting, by ranks: arrays with an axis for each of FACTORS."""

    rank: Rank
    throughput: Mapping[int, np.ndarray]

    def effect(self, factor: str, ranks: int) -> float:
        """How many times as fast the best level is as the worst, in the geometric mean over all
        settings of the other factors: 1 for a factor that changes nothing.

        A main effect of a full factorial design, as a ratio: the effects are those of a
        multiplicative model (Jain 1991, The art of computer systems performance analysis, part IV;
        contents at https://www.cse.wustl.edu/~jain/tutorials/ied_tut.htm, module 3).
        """
        means = self._logs(ranks, factor)
        return float(np.exp(np.ptp(means)))

    def best(self, factor: str, ranks: int) -> str:
        """The level with the highest geometric mean."""
        return FACTORS[factor][int(np.argmax(self._logs(ranks, factor)))]

    def largest(self, ranks: int) -> tuple[str, float]:
        """Of the factors that one can choose (the model is given) the one with the largest effect,
        and that effect."""
        effects = {factor: self.effect(factor, ranks) for factor in CHOSEN}
        name = max(effects, key=effects.__getitem__)
        return name, effects[name]

    def effect_within(self, factor: str, other: str, ranks: int) -> dict[str, float]:
        """The effect of `factor` (of its best level over its worst) at each level of `other`."""
        means = self._logs(ranks, factor)
        both = self._logs(ranks, factor, other)
        ratios = both[int(np.argmax(means))] - both[int(np.argmin(means))]
        return {
            level: float(np.exp(one)) for level, one in zip(FACTORS[other], ratios, strict=True)
        }

    def interaction(self, ranks: int) -> tuple[str, str, dict[str, float]]:
        """The pair of factors that one can choose of which the first one's effect changes most
        with the second one's level, and these effects."""
        pairs = {
            (one, other): self.effect_within(one, other, ranks)
            for one, other in permutations(CHOSEN, 2)
        }
        found = max(pairs, key=lambda pair: max(pairs[pair].values()) / min(pairs[pair].values()))
        return (*found, pairs[found])

    def _logs(self, ranks: int, *factors: str) -> np.ndarray:
        """Means of the logarithm, with axes for these factors only, in their order."""
        names = list(FACTORS)
        others = tuple(axis for axis, name in enumerate(names) if name not in factors)
        means = np.log(self.throughput[ranks]).mean(axis=others)
        return means if names.index(factors[0]) <= names.index(factors[-1]) else means.T


def predict_grid(rank: Rank, sizes: Sequence[int] = RANKS) -> Grid:
    """Every setting on each number of ranks."""
    shape = [len(levels) for levels in FACTORS.values()]
    settings = [Setting(*levels) for levels in product(*FACTORS.values())]
    throughput = {
        ranks: np.reshape([relative(rank, setting, ranks) for setting in settings], shape)
        for ranks in sizes
    }
    return Grid(rank, throughput)


def relative(rank: Rank, setting: Setting, ranks: int) -> float:
    """Images/s over those of one rank in float32 that waits for nothing."""
    together = predict(training(rank, setting, ranks), ranks).images_per_s
    return together / rank.images_per_s[setting.model]


@dataclass(frozen=True)
class AgainstOne:
    """A model on several ranks that wait for gradients only: images/s over those of one rank.

    `nbytes` are those of the gradients, `flop_per_byte` forward's FLOP for one image over them.
    """

    model: str
    speed_up: float
    nbytes: int
    flop_per_byte: float


def against_one(rank: Rank, network: str = "1gbit", ranks: int = 8) -> list[AgainstOne]:
    """Each model in float32, by FLOP per byte of gradients, the fewest first."""
    link = cost_of(network)
    found = []
    for name, alone in rank.images_per_s.items():
        layers = model(name)
        run = Training(layers, alone, BATCH, nodes(1, link, link))
        speed_up = predict(run, ranks).images_per_s / alone
        nbytes = layers.parameter_bytes
        found.append(AgainstOne(name, speed_up, nbytes, layers.flop / nbytes))
    return sorted(found, key=lambda one: one.flop_per_byte)
