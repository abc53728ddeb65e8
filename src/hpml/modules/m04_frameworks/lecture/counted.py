"""What a derivative costs in multiplications: forward mode against reverse mode, counted.

For a function of n inputs and m outputs, forward mode takes a pass for each input, reverse mode one
for each output. Where only additions and multiplications are used, the gradient of one output takes
exactly 3 times the function's multiplications (Griewank 2012, Who Invented the Reverse Mode of
Differentiation?, Documenta Mathematica, Extra Volume ISMP, pages 389-400).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

HIDDEN = 8


class Counted:
    """A number whose multiplications are counted, in `Counted.multiplications`."""

    multiplications = 0

    def __init__(self, number: float):
        self.number = float(number)

    def __mul__(self, other: Counted | float) -> Counted:
        Counted.multiplications += 1
        return Counted(self.number * float(other))

    def __add__(self, other: Counted | float) -> Counted:
        return Counted(self.number + float(other))

    def __float__(self) -> float:
        return self.number

    __rmul__, __radd__ = __mul__, __add__


def layers(inputs: int, outputs: int) -> Callable[[Sequence[Any]], list[Any]]:
    """A function of numbers: two layers with squares between them, and fixed weights.

    It takes `inputs` numbers of any class that adds and multiplies, and returns `outputs` of them:
    y_k = Σ_j v_kj (Σ_i w_ji x_i)². HIDDEN · (inputs + 1 + outputs) multiplications.
    """

    def weights(rows: int, columns: int) -> list[list[Counted]]:
        return [
            [Counted(((3 * r + 5 * c) % 7 - 3) / 4) for c in range(columns)] for r in range(rows)
        ]

    first, second = weights(HIDDEN, inputs), weights(outputs, HIDDEN)

    def function(x: Sequence[Any]) -> list[Any]:
        wrap = type(x[0])

        def product(matrix: list[list[Counted]], vector: Sequence[Any]) -> list[Any]:
            rows = [[wrap(w) * v for w, v in zip(row, vector, strict=True)] for row in matrix]
            return [_sum(row) for row in rows]

        return product(second, [h * h for h in product(first, x)])

    return function


def _sum(terms: Sequence[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


@dataclass(frozen=True)
class Cost:
    """Multiplications for one function, and whether both modes found the same derivatives."""

    inputs: int
    outputs: int
    function: int
    forward: int
    reverse: int
    same: bool


def cost(
    inputs: int,
    outputs: int,
    forward_mode: Callable[[Callable, list[Counted]], list[list[Any]]],
    reverse_mode: Callable[[Callable, list[Counted]], list[list[Any]]],
) -> Cost:
    """Count both. A mode takes a function and a point and returns the derivatives:
    [output][input]."""
    function = layers(inputs, outputs)
    point = [Counted((i % 5 - 1) / 2) for i in range(inputs)]
    found, counts = [], []
    for run in (lambda f, x: f(x), forward_mode, reverse_mode):
        Counted.multiplications = 0
        found.append(run(function, point))
        counts.append(Counted.multiplications)
    _, forward, reverse = found
    same = [[*map(float, row)] for row in forward] == [[*map(float, row)] for row in reverse]
    once, by_forward, by_reverse = counts
    return Cost(inputs, outputs, once, by_forward, by_reverse, same)


def table(costs: Sequence[Cost]) -> str:
    """The costs as lines of text."""
    lines = [f"{'inputs':>6}{'outputs':>9}{'function':>10}{'forward mode':>18}{'reverse mode':>18}"]
    for c in costs:
        forward, reverse = (
            f"{count:>9,}{f'({count / c.function:.1f}×)':>9}" for count in (c.forward, c.reverse)
        )
        lines.append(f"{c.inputs:>6}{c.outputs:>9}{c.function:>10,}{forward}{reverse}")
    return "\n".join(lines)


def as_computed(costs: Sequence[Cost]) -> bool:
    """Whether both modes agree and cost what the theory says: reverse mode 3 times the function for
    one output, forward mode 3 times for each input, and less than reverse mode for the function
    with the most outputs."""
    many = max(costs, key=lambda c: c.outputs)
    return (
        all(c.same for c in costs)
        and all(c.reverse == 3 * c.function for c in costs if c.outputs == 1)
        and all(c.forward == 3 * c.function * c.inputs for c in costs)
        and many.forward < many.reverse
    )
