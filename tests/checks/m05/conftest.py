"""The module's right answers, and runs in which something was changed afterwards."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpml.checks import answers
from hpml.checks.contract import Check, Run
from hpml.checks.play import _play
from hpml.ranks import flavour

SOLUTION = Path(__file__).parents[3] / "solutions" / "05_horovod.py"


@pytest.fixture(scope="session")
def solution() -> Callable[[str], str]:
    """`solution("hvd_torch")` is the source of the right answer, as the notebook has it."""

    def source_of(exercise: str) -> str:
        found = {answer.exercise: answer.source for answer in answers.read(SOLUTION)}
        return found[exercise]

    return source_of


@pytest.fixture(scope="session")
def played(solution) -> Callable[[Check, int, int], Run]:
    """`played(check, world_size, seed)`: a run of the right answer."""

    def run_of(check: Check, world_size: int, seed: int) -> Run:
        if why := flavour.missing(check.needs):
            pytest.skip(why)
        source = solution(check.id).replace("%%answer", "#", 1)
        run, fault = _play(check, source, world_size, seed)
        assert fault is None, fault.diagnosis
        return run

    return run_of


@pytest.fixture
def with_value() -> Callable[..., Run]:
    """`with_value(run, rank, change, stage)`: with `change(value)` for what a rank returned."""

    def changed(run: Run, rank: int, change: Callable, stage: str = "play") -> Run:
        evidence = run.stages[stage]
        ranks = list(evidence.ranks)
        ranks[rank] = replace(ranks[rank], value=change(ranks[rank].value))
        evidence = replace(evidence, ranks=tuple(ranks))
        return replace(run, evidence=evidence, stages={**run.stages, stage: evidence})

    return changed
