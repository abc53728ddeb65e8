"""What watches a training run on one rank: a progress bar, TensorBoard's events, a profiler.

A run calls all its observers at the same points. They change nothing of it.
"""

from types import TracebackType

from torch import Tensor

from hpml.train.history import Epoch


class Observer:
    """One that looks at nothing; the others say what they look at."""

    def batch(self, pixels: Tensor) -> None:
        """The network is about to see normalised images, float32 [B, 3, S, S]."""

    def step(self, images: int) -> None:
        """A step is over; all ranks together saw `images` images in it."""

    def tested(self, images: Tensor, labels: Tensor, logits: Tensor) -> None:
        """A batch of the test is over: uint8 [B, 3, 32, 32], int64 [B], float32 [B, 10]."""

    def epoch(self, epoch: Epoch) -> None:
        """An epoch is over, its test included."""

    def close(self) -> None:
        """The run is over, well or not."""


class Observers(Observer):
    """Several, each called in turn; a context that closes them."""

    def __init__(self, *each: Observer):
        self.each = each

    def batch(self, pixels: Tensor) -> None:
        for one in self.each:
            one.batch(pixels)

    def step(self, images: int) -> None:
        for one in self.each:
            one.step(images)

    def tested(self, images: Tensor, labels: Tensor, logits: Tensor) -> None:
        for one in self.each:
            one.tested(images, labels, logits)

    def epoch(self, epoch: Epoch) -> None:
        for one in self.each:
            one.epoch(epoch)

    def close(self) -> None:
        for one in self.each:
            one.close()

    def __enter__(self) -> "Observers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
