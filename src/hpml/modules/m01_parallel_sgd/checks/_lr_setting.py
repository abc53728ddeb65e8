"""A training run whose learning rate is asked for in lr_scaling."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """One training run. `rule` is "linear" or "sqrt"."""

    base_rate: float
    batch_per_rank: int
    ranks: int
    rule: str
    warm_up_steps: int

    def __str__(self) -> str:
        return (
            f"base_rate {self.base_rate:.4g}, {self.ranks} ranks of {self.batch_per_rank}, "
            f"{self.rule}, {self.warm_up_steps} warm-up steps"
        )


def setting_of(given: dict[str, Any]) -> Setting:
    """Without the steps."""
    return Setting(**{name: value for name, value in given.items() if name != "steps"})
