"""What an answer's functions returned, by the claim that they were called for."""

from types import ModuleType
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import Problem, Run


def exception_in_words(error: Exception, answer: ModuleType) -> str:
    """On a rank: an exception of the answer's, and the line of it that was at work."""
    trace, line = error.__traceback__, 0
    while trace is not None:
        if trace.tb_frame.f_globals is vars(answer):
            line = trace.tb_lineno
        trace = trace.tb_next
    first = (str(error).splitlines() or [""])[0]
    at = f" (line {line} of your answer)" if line and type(error) is not NotImplementedError else ""
    return f"{type(error).__name__}: {first}"[:200] + at


def returned(
    run: Run, claim: str, name: str, count: int, types: str = "types"
) -> list[Any] | Problem:
    """What the calls of a claim returned, a number of values; or why they cannot be judged.

    `types` is the hint for what is not a list of so many values.
    """
    value = run.values[0].get(claim) if isinstance(run.values[0], dict) else None
    if isinstance(value, dict) and isinstance(value.get("raised"), str):
        hint = "unwritten" if value["raised"].startswith("NotImplementedError") else "raised"
        return Problem(f"{name} raised {value['raised']}", hint)
    if not isinstance(value, list) or len(value) != count:
        return Problem(f"{name} was called {count} times, and {described(value)} came back", types)
    return value
