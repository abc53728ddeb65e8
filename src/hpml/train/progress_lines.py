"""How far a run is, as a line for each epoch: in a job's log a bar would be one long line."""

import sys

from hpml.train.history import Epoch
from hpml.train.observer import Observer


def is_log() -> bool:
    """Whether what is written to stderr is read later, and not in a terminal or a notebook."""
    return not sys.stderr.isatty() and "ipykernel" not in sys.modules


class ProgressLines(Observer):
    """A line when the run carries on after `done` of its `epochs`, and one after each epoch."""

    def __init__(self, epochs: int, done: int, seen: bool):
        """`seen`: a part of the next epoch was trained on before the run was stopped."""
        self.epochs = epochs
        if done or seen:
            where = "in the middle of" if seen else "at the beginning of"
            print(f"carries on {where} epoch {done + 1} of {epochs}", flush=True)

    def epoch(self, epoch: Epoch) -> None:
        print(
            f"epoch {epoch.epoch} of {self.epochs}: loss {epoch.train_loss:.3f}, "
            f"test accuracy {epoch.test_accuracy:.2%}, {epoch.seconds:.1f} s, "
            f"{epoch.images_per_second:.0f} images/s",
            flush=True,
        )
