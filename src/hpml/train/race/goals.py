"""What has been reached when a try is over: an accuracy, on how many images."""

from dataclasses import dataclass, replace

from hpml.errors import UserError
from hpml.train.race.switches import Switches


@dataclass(frozen=True)
class Goal:
    """`accuracy`, in [0, 1], on the first `test_images` test images, by training on the first
    `images` training images in each epoch. `limit` is in seconds, of a whole try.

    `images` is a multiple of many powers of two: all batches are whole. Tries are compared with
    those for the same goal.
    """

    name: str
    accuracy: float
    images: int
    test_images: int
    widths: tuple[int, ...]
    off: Switches
    limit: float

    def training(self) -> list[str]:
        """The options of the training script, but for switches."""
        return [
            *("--samples", str(self.images), "--test-samples", str(self.test_images)),
            *("--widths", ",".join(map(str, self.widths)), "--early-share", "0", "--no-progress"),
        ]

    def in_words(self) -> str:
        return f"{self.accuracy:.0%} of {self.test_images:,} test images"


GOALS = {
    goal.name: goal
    for goal in (
        Goal("laptop", 0.5, 8_192, 2_000, (24, 48, 96), Switches(), 300.0),
        Goal("full", 0.9, 49_152, 10_000, (64, 256, 256), replace(Switches(), epochs=13), 7200.0),
    )
}


def goal_named(name: str) -> Goal:
    """The goal of that name; UserError where there is none."""
    if name not in GOALS:
        raise UserError(f"--goal is {name!r}, expected one of {', '.join(GOALS)}")
    return GOALS[name]
