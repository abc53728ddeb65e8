"""ImageNet in one hour: the published errors by batch, and up to which batch they stay.

Goyal et al. 2017, Accurate, large minibatch SGD: training ImageNet in 1 hour
(https://arxiv.org/abs/1706.02677): ResNet-50, 90 epochs, 32 images on each GPU. Errors are
top-1 on the validation images, means of five runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BASE_BATCH = 256
SPREAD = 0.12  # percentage points: standard deviation of the base's error over five runs

LINEAR = "linear rule, gradual warm-up"


@dataclass(frozen=True)
class Trained:
    """Top-1 validation error in percent after 90 epochs with this batch, over all ranks."""

    batch: int
    way: str
    error: float


TRAINED = (
    Trained(256, LINEAR, 23.60),
    Trained(8192, LINEAR, 23.74),
    Trained(16384, LINEAR, 24.79),
    Trained(32768, LINEAR, 27.55),
    Trained(65536, LINEAR, 33.96),
    Trained(8192, "no warm-up", 24.84),
    Trained(8192, "constant warm-up (0.1, then 3.2)", 25.88),
    Trained(8192, "square-root rule", 26.22),
)


def errors(trained: Sequence[Trained] = TRAINED) -> Mapping[int, float]:
    """The error by batch, with the linear rule and gradual warm-up."""
    return {one.batch: one.error for one in trained if one.way == LINEAR}


def limit(trained: Sequence[Trained] = TRAINED, within: float = 2 * SPREAD) -> int:
    """The largest batch up to which all errors are at most `within` above that of the base."""
    found = BASE_BATCH
    for batch, error in sorted(errors(trained).items()):
        if error > errors(trained)[BASE_BATCH] + within:
            break
        found = batch
    return found


def batch_finding(trained: Sequence[Trained] = TRAINED) -> tuple[bool, str, str]:
    """Whether the error stays with 32 times the batch, and why: for `hpml.publish.conclude`.

    (held, sentence, otherwise)."""
    base, by_batch, most = errors(trained)[BASE_BATCH], errors(trained), limit(trained)
    cold = {one.way: one.error for one in trained if one.batch == 8192 and one.way != LINEAR}
    last = max(by_batch)
    held = most == 8192 and min(cold.values()) > by_batch[8192] + 2 * SPREAD and last > most
    ways = ", ".join(f"{way} {error:.2f} %" for way, error in cold.items())
    sentence = (
        f"**Answer.** Up to {most}: {by_batch[most]:.2f} %, and {base:.2f} % with {BASE_BATCH} "
        f"(standard deviation of five runs: {SPREAD}). At {2 * most} it is "
        f"{by_batch[2 * most]:.2f} %, at {last} {by_batch[last]:.2f} %. At {most} in other ways: "
        f"{ways}."
    )
    return held, sentence, f"the error stays up to a batch of {most}; at 8192: {ways}."
