"""Answers of module 08 start no ranks: they are played in the tests' own process.

These fixtures are about the check that a file is named after.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from hpml.answer import as_python
from hpml.checks import find
from hpml.checks.contract import Check, Problem

from ....made_runs import hand_made, played, solution


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Check:
    return find(request.path.stem.removeprefix("test_"))


@pytest.fixture
def right_answer(check, solution) -> str:
    """The right answer's source."""
    return as_python(solution(check.id))


@pytest.fixture
def problems(check, hand_made) -> Callable[..., list[Problem | None]]:
    """`problems(value, seed)`: what each claim says of what an answer returned."""

    def found(value: Any, seed: int = 0) -> list[Problem | None]:
        run = hand_made(check, [value], seed=seed)
        return [claim.judge(run) for claim in check.claims]

    return found


@pytest.fixture
def hints(problems) -> Callable[..., list[str]]:
    """`hints(value, seed)`: the hint of each claim, "" where it holds."""
    return lambda value, seed=0: [found.hint if found else "" for found in problems(value, seed)]


@pytest.fixture
def value_of(check) -> Callable[[str, int], Any]:
    """`value_of(source, seed)`: what an answer returns for the seed's inputs."""

    def returned(source: str, seed: int) -> Any:
        answer = ModuleType("answer")
        exec(source, vars(answer))
        return check.drive(answer, check.inputs(seed, 1)[0])

    return returned


@pytest.fixture
def played_here(value_of, hints) -> Callable[[str, int], list[str]]:
    """`played_here(source, seed)`: the hints that an answer gets, "" for each claim that holds."""
    return lambda source, seed: hints(value_of(source, seed), seed)
