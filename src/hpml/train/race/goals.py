"""What has been reached when a try is over: an accuracy, on how many images."""

from dataclasses import dataclass

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
        # Between two tests of a try with all off, which has 39 % and then 45 %: a try is not an
        # epoch longer or shorter by chance.
        Goal("laptop", 0.42, 4_096, 2_000, (16, 32, 64), Switches(), 600.0),
        # The training script's own batch and rate, or nearly.
        Goal("full", 0.9, 49_152, 10_000, (64, 256, 256), Switches(lr=0.36, epochs=13), 7200.0),
    )
}


def goal_named(name: str) -> Goal:
    """The goal of that name; UserError where there is none."""
    if name not in GOALS:
        raise UserError(f"--goal is {name!r}, expected one of {', '.join(GOALS)}")
    return GOALS[name]
