# %%answer lr_scaling
# unusual: a frozen dataclass that can be called, an Enum, a generator of all rates, lru_cache
import itertools
import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from typing import Callable, Iterator


class Rule(Enum):
    LINEAR = partial(lambda k: k)
    SQRT = partial(math.sqrt)

    @classmethod
    def named(cls, name: str) -> "Rule":
        return cls[name.upper()]


@dataclass(frozen=True)
class WarmUp:
    low: float
    high: float
    steps: int

    def rates(self) -> Iterator[float]:
        for step in range(self.steps):
            share = step / self.steps
            yield (1 - share) * self.low + share * self.high
        yield from itertools.repeat(self.high)

    def __call__(self, step: int) -> float:
        return next(itertools.islice(self.rates(), step, None))


@lru_cache(maxsize=128)
def warm_up(low: float, high: float, steps: int) -> Callable[[int], float]:
    return WarmUp(low, high, steps)


def scaled_rate(base_rate: float, batch_per_rank: int, ranks: int, rule: str) -> float:
    return base_rate * Rule.named(rule).value(ranks)


def rate_at(step, base_rate, batch_per_rank, ranks, rule, warm_up_steps):
    return warm_up(base_rate, scaled_rate(base_rate, batch_per_rank, ranks, rule), warm_up_steps)(
        step
    )


if __name__ == "__main__":
    print([rate_at(step, 0.1, 32, 8, "sqrt", 4) for step in range(8)])
