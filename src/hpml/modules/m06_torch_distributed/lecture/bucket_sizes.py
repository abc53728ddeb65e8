"""What a call costs besides its bytes, from the same gradients averaged in more calls and fewer."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Averaged:
    """Gradients averaged in `calls` all-reduces: seconds, and the least that the link needs."""

    calls: int
    seconds: float
    bound: float

    @property
    def per_call(self) -> float:
        """Seconds over the bound, for each call."""
        return (self.seconds - self.bound) / self.calls


def calls_cost(by_size: Mapping[str, Averaged]) -> bool:
    """Whether more calls take longer, and more than the link needs; the most calls come first."""
    most, next_most, third, *_ = by_size.values()
    longer = most.seconds > next_most.seconds > third.seconds
    return longer and min(most.per_call, next_most.per_call) > 0
