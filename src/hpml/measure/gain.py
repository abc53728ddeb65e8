"""How many times as fast, and how sure that is."""

import statistics
from dataclasses import dataclass

Seconds = tuple[float, ...]  # one for each turn


@dataclass(frozen=True)
class Gain:
    """How many times as fast: two versions that were timed in the same turns."""

    before: Seconds
    after: Seconds

    @property
    def factor(self) -> float:
        """The ratio of the medians."""
        return statistics.median(self.before) / statistics.median(self.after)

    @property
    def least(self) -> float:
        """The ratio in the turn in which it was smallest."""
        return min(self._ratios)

    @property
    def most(self) -> float:
        """The ratio in the turn in which it was largest."""
        return max(self._ratios)

    @property
    def _ratios(self) -> list[float]:
        return [before / after for before, after in zip(self.before, self.after, strict=True)]

    @property
    def clear(self) -> bool:
        """Faster in every turn."""
        return self.least > 1

    def __str__(self) -> str:
        return f"{times(self.factor)} ({times(self.least)} to {times(self.most)})"


def times(factor: float) -> str:
    """A factor, as the course prints it."""
    return f"{factor:.0f}" if factor >= 10 else f"{factor:.2f}"
