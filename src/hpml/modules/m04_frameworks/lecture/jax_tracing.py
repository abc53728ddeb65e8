"""What JAX does where Python looks at a value while it traces. JAX is optional here."""

from collections.abc import Callable, Sequence
from typing import Any


def refusal(function: Callable[..., Any], *arguments: Any) -> str:
    """The name of the error with which jax.jit refuses to trace `function`; empty if it traces."""
    import jax

    try:
        jax.jit(function)(*arguments)
    except jax.errors.ConcretizationTypeError as error:  # a value was wanted, and there is none
        return type(error).__name__
    return ""


def traces_after_each(function: Callable[[Any], Any], values: Sequence[Any]) -> list[int]:
    """How often Python has run `function` after each call of jax.jit(function) with a value."""
    import jax

    runs = 0

    def counted(value: Any) -> Any:
        nonlocal runs
        runs += 1  # a side effect of Python: not in the graph
        return function(value)

    compiled = jax.jit(counted)
    after = []
    for value in values:
        compiled(value)
        after.append(runs)
    return after
