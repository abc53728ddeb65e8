"""What a training run leaves for notebooks, benchmarks and reports."""

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpml.files import atomic


@dataclass(frozen=True)
class Epoch:
    """One pass. Losses are means per image, accuracies in [0, 1], over all ranks.

    `seconds` are those of training: loading, augmentation, steps; not of the test. So are
    `images_per_second`, of all ranks together. `lr` is the learning rate at its end.
    """

    epoch: int  # from 1
    train_loss: float
    train_accuracy: float
    test_loss: float
    test_accuracy: float
    lr: float
    seconds: float
    images_per_second: float


@dataclass(frozen=True)
class History:
    """A whole run. `stopped` is true when a signal ended it early; a checkpoint has the rest."""

    config: dict[str, Any]
    data: str  # what the images are, with SYNTHETIC in it if generated
    synthetic: bool
    world_size: int
    threads: int
    device: str
    precision: str
    parameters: int
    epochs: tuple[Epoch, ...]
    stopped: bool = False

    @property
    def seconds(self) -> float:
        """Seconds of training, loading included, tests left out."""
        return sum(epoch.seconds for epoch in self.epochs)

    @property
    def images_per_second(self) -> float:
        """Of all ranks together, over the whole run, loading included."""
        images = sum(epoch.images_per_second * epoch.seconds for epoch in self.epochs)
        return images / self.seconds if self.seconds else float("nan")

    @property
    def test_accuracy(self) -> float:
        """Of the last epoch, in [0, 1]; nan before the end of the first."""
        return self.epochs[-1].test_accuracy if self.epochs else float("nan")

    def write(self, path: str | os.PathLike[str]) -> None:
        """As JSON, whole or not at all."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        summary = {
            "seconds": self.seconds,
            "images_per_second": self.images_per_second,
            "test_accuracy": self.test_accuracy,
        }
        atomic.write_text(path, json.dumps(dataclasses.asdict(self) | summary, indent=2) + "\n")


def read_history(path: str | os.PathLike[str]) -> History:
    """What `History.write` wrote."""
    fields = json.loads(Path(path).read_text())
    known = {field.name for field in dataclasses.fields(History)}
    fields = {name: value for name, value in fields.items() if name in known}
    fields["epochs"] = tuple(Epoch(**epoch) for epoch in fields["epochs"])
    return History(**fields)
