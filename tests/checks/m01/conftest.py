"""Runs made by hand, so that judges can be asked about evidence that no engine would bring."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hpml.checks import answers
from hpml.checks.contract import Check, Run
from hpml.ranks.evidence import Call, Evidence, RankEvidence

SOLUTION = Path(__file__).parents[3] / "solutions" / "01_parallel_sgd.py"


@pytest.fixture(scope="session")
def solution() -> Callable[[str], str]:
    """`solution("sync_sgd")` is the source of the right answer, as the solution notebook has it."""

    def source_of(exercise: str) -> str:
        found = {answer.exercise: answer.source for answer in answers.read(SOLUTION)}
        return found[exercise]

    return source_of


@pytest.fixture
def hand_made() -> Callable[..., Run]:
    """`hand_made(check, values, seed=0, calls=())`: a run in which rank r returned `values[r]`."""

    def run_of(
        check: Check, values: Sequence[Any], *, seed: int = 0, calls: Sequence[Call] = ()
    ) -> Run:
        world_size = len(values)
        ranks = tuple(
            RankEvidence(rank, "returned", value, calls=tuple(calls))
            for rank, value in enumerate(values)
        )
        evidence = Evidence(world_size, ranks, 0.0)
        inputs = check.inputs(seed, world_size)
        expected = check.expect(inputs, world_size)
        return Run(world_size, seed, inputs, expected, evidence, {"play": evidence})

    return run_of
