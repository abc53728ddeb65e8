"""Data parallel training by one number: how many images a rank computes while gradients travel.

The smallest model in which the batch decides: computing is `seconds_per_image` for each image, then
a ring all-reduce of all gradients, nothing overlapped. `hpml.predict.scaling` has the rest: layers,
buckets, overlap, levels of a network.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from hpml.predict.collectives import Cost, all_reduce_seconds

Finding = tuple[bool, str, str]
BUSY = "That can be: the ranks share this machine's cores with other programs."
CLOSE = 0.35  # relative: how far a speed-up may be from the model's, which has no latencies


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


def of_two_batches(strong: Mapping[int, Mapping[int, float]]) -> Finding:
    """Measured speed-ups by batch and ranks: the small batch gains nothing, the large one does."""
    small, large = min(strong), max(strong)
    most = max(strong[small])
    seen = (
        f"{most} ranks have {strong[small][most]:.1f} times the images/s of one with a batch of "
        f"{small}, and {strong[large][most]:.1f} times with a batch of {large}"
    )
    fastest = max(strong[small], key=strong[small].__getitem__)
    return (
        fastest == 1 and strong[large][most] > 0.3 * most,
        f"**Answer.** {seen}. With the small batch one rank alone is the fastest: others take "
        "little work from it, and all of them wait for the gradients.",
        f"{seen}; with {small} images the fastest number of ranks is {fastest}. {BUSY}",
    )


def of_break_even(training: Training, strong: Mapping[int, Mapping[int, float]]) -> Finding:
    """The limit by `break_even`, beside what was measured with the most ranks."""
    most = max(max(measured) for measured in strong.values())
    pairs = {batch: (measured[most], training) for batch, measured in strong.items()}
    off = max(abs(seen / one.strong(b, most) - 1) for b, (seen, one) in pairs.items())
    below = all(seen < 1.1 * max(1, one.limit(b)) for b, (seen, one) in pairs.items())
    limits = ", ".join(f"{training.limit(b):.1f} times for a batch of {b}" for b in sorted(strong))
    number = f"A rank computes {training.break_even:.0f} images while its gradients travel"
    return (
        off < CLOSE and below,
        f"**Answer.** {number}. However many ranks there are, the speed-up comes near {limits}. "
        f"With {most} ranks what was measured is within {off:.0%} of the model.",
        f"{number}; with {most} ranks the measured speed-ups are up to {off:.0%} from the model. "
        f"{BUSY}",
    )


def of_weak(training: Training, images: int, seconds: Mapping[int, float]) -> Finding:
    """Weak scaling: seconds of a step by ranks, with `images` on each of them."""
    most = max(seconds)
    each = seconds[1] / seconds[most]
    foretold = training.weak(images, most) / most
    far = training.weak(images, 256) / 256
    seen = (
        f"With {images} images on each of {most} ranks, a rank has {each:.0%} of its images/s alone"
    )
    return (
        abs(each / foretold - 1) < CLOSE,
        f"**Answer.** {seen}; the model has {foretold:.0%}, and {far:.0%} with 256 ranks. But the "
        f"batch of those is {256 * images:,} images.",
        f"{seen}, and the model has {foretold:.0%}. {BUSY}",
    )


def of_models(trainings: Mapping[str, tuple[Training, int]]) -> Finding:
    """Networks by name, each with the images that a rank has; `break_even` ascends over them."""
    needed = {name: one.break_even for name, (one, _) in trainings.items()}
    images = ", ".join(
        f"{name} {needed[name]:.0f} ({1e3 * one.seconds_per_image:.2g} ms each)"
        for name, (one, _) in trainings.items()
    )
    kept = ", ".join(
        f"{name} {one.weak(batch, 256) / 256:.0%} with {batch}"
        for name, (one, batch) in trainings.items()
    )
    return (
        list(needed.values()) == sorted(needed.values()),
        f"**Answer.** *b* is, in images: {images}. So each of 256 GPUs would keep of its images/s: "
        f"{kept} images on each. That is with nothing hidden behind backward.",
        f"*b* is, in images: {images}; kept are {kept} images.",
    )


def of_computing(seconds: Mapping[int, Mapping[int, Mapping[str, float]]]) -> Finding:
    """One and two ranks that compute in earnest: seconds of both phases, by batch and ranks."""
    ratio = {b: sum(s[1].values()) / sum(s[2].values()) for b, s in seconds.items()}
    small, large = min(ratio), max(ratio)
    send = {b: seconds[b][2]["send"] / sum(seconds[b][2].values()) for b in (small, large)}
    seen = (
        f"two ranks have {ratio[small]:.1f} times the images/s of one with a batch of {small}, "
        f"{ratio[large]:.1f} times with {large}"
    )
    return (
        ratio[small] < 1 < ratio[large],
        f"**Answer.** Here {seen}. Of their step {send[small]:.0%} and {send[large]:.0%} are "
        "sending.",
        f"{seen}. {BUSY}",
    )
