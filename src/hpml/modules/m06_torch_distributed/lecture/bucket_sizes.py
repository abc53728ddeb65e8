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


def finding(by_size: Mapping[str, Averaged], alpha: float) -> tuple[bool, str, str]:
    """What `hpml.publish.conclude` takes: seconds, calls, and the cost of a call beside 2α.

    `by_size` begins with the most calls. On two ranks the model of a ring counts two messages of
    α seconds each for a call.
    """
    took = "; ".join(
        f"{name}: {one.calls} call{'s' * (one.calls != 1)}, {1e3 * one.seconds:.0f} ms"
        for name, one in by_size.items()
    )
    most, next_most, third, *_ = by_size.values()
    costs = [most.per_call, next_most.per_call]
    bound = f"The lower bound is {1e3 * most.bound:.0f} ms. "
    return (
        most.seconds > next_most.seconds > third.seconds and min(costs) > 0,
        f"{took}. {bound}Above it, a call costs {1e3 * costs[0]:.2f} ms in the first case and "
        f"{1e3 * costs[1]:.2f} ms in the second. The model's two latencies, 2 α, are "
        f"{2e3 * alpha:.2f} ms: a call costs {costs[0] / (2 * alpha):.1f} and "
        f"{costs[1] / (2 * alpha):.1f} times that.",
        f"{took}. {bound}Other programs had the cores.",
    )
