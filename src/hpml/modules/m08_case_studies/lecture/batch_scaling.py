"""Data parallel training by one number: how many images a rank computes while gradients travel.

The smallest model in which the batch decides: computing is `seconds_per_image` for each image, then
a ring all-reduce of all gradients, nothing overlapped. `hpml.predict.scaling` has the rest: layers,
buckets, overlap, levels of a network.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hpml.predict.collectives import Cost, all_reduce_seconds

CLOSE = 0.2  # relative: how far a speed-up may be from the model's


@dataclass(frozen=True)
class Training:
    """A rank computes an image in `seconds_per_image`, and has `nbytes` of gradients to average."""

    seconds_per_image: float
    nbytes: float
    cost: Cost

    def step(self, images: float, ranks: int) -> float:
        """Seconds of a step in which each of `ranks` computes `images`, and then all send."""
        sending = all_reduce_seconds("ring", self.nbytes, ranks, self.cost)
        return images * self.seconds_per_image + sending

    @property
    def break_even(self) -> float:
        """Images that a rank computes while its gradients travel, among many ranks: 2 n β / t.

        With as many images on each rank, half of a step is sending. 2 (p-1)/p has come to 2, and
        latencies are left out.
        """
        return 2 * self.nbytes * self.cost.beta / self.seconds_per_image

    def strong(self, batch: float, ranks: int) -> float:
        """Images/s with one batch shared out among all ranks, over those of one rank."""
        return self.step(batch, 1) / self.step(batch / ranks, ranks)

    def limit(self, batch: float) -> float:
        """What `strong` comes near with many ranks: the batch over `break_even`.

        Without latencies `strong` is p / (1 + (p-1) b/B), with B the batch and b `break_even`. That
        is Amdahl's law with a serial share of b/B. It grows towards B/b, and stays below it; where
        the batch is less than `break_even`, it falls towards B/b from 1: one rank is the fastest.
        """
        return batch / self.break_even

    def weak(self, images: float, ranks: int) -> float:
        """Images/s with a batch of `images` on each rank, over those of one rank."""
        return ranks * self.step(images, 1) / self.step(images, ranks)


def speed_up(seconds: Mapping[int, float]) -> dict[int, float]:
    """Of the same batch: seconds of a step by ranks, with those of one rank among them."""
    return {ranks: seconds[1] / taken for ranks, taken in seconds.items()}


class TwoBatches(NamedTuple):
    """Speed-ups of the `most` ranks, and how many are the `fastest` with the small batch."""

    held: bool
    most: int
    with_small: float
    with_large: float
    fastest: int


def two_batches(strong: Mapping[int, Mapping[int, float]]) -> TwoBatches:
    """Measured speed-ups by batch and ranks: the small batch gains nothing, the large one does."""
    small, large = strong[min(strong)], strong[max(strong)]
    most, fastest = max(small), max(small, key=small.__getitem__)
    held = fastest == 1 and large[most] > 0.3 * most
    return TwoBatches(held, most, small[most], large[most], fastest)


class Off(NamedTuple):
    """How far measured speed-ups of the `most` ranks are `off` the model's, relative."""

    held: bool
    most: int
    off: float


def off_the_model(training: Training, strong: Mapping[int, Mapping[int, float]]) -> Off:
    """The limit by `break_even`, beside what was measured with the most ranks."""
    most = max(max(measured) for measured in strong.values())
    seen = {batch: measured[most] for batch, measured in strong.items()}
    off = max(abs(one / training.strong(b, most) - 1) for b, one in seen.items())
    below = all(one < 1.1 * max(1, training.limit(b)) for b, one in seen.items())
    return Off(off < CLOSE and below, most, off)


class Kept(NamedTuple):
    """The share of its images/s alone that each of `ranks` keeps, and the model's."""

    held: bool
    ranks: int
    share: float
    predicted: float


def kept(training: Training, images: int, seconds: Mapping[int, float]) -> Kept:
    """Weak scaling: seconds of a step by ranks, with `images` on each of them."""
    most = max(seconds)
    share, predicted = seconds[1] / seconds[most], training.weak(images, most) / most
    return Kept(abs(share / predicted - 1) < CLOSE, most, share, predicted)


class Computing(NamedTuple):
    """By batch: images/s of two ranks over those of one, and the share of their step that sends."""

    held: bool
    times: Mapping[int, float]
    sending: Mapping[int, float]


def computing(seconds: Mapping[int, Mapping[int, Mapping[str, float]]]) -> Computing:
    """One and two ranks that compute in earnest: seconds of both phases, by batch and ranks."""
    times = {b: sum(s[1].values()) / sum(s[2].values()) for b, s in seconds.items()}
    sending = {b: s[2]["send"] / sum(s[2].values()) for b, s in seconds.items()}
    return Computing(times[min(times)] < 1 < times[max(times)], times, sending)
