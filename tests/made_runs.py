"""Right answers, runs of them, and runs made by hand or changed afterwards: evidence for judges."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from hpml.checks.contract import Check, Run
from hpml.checks.plays import play_once
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.ranks import flavour
from hpml.ranks.evidence import Asked, Call, Evidence, RankEvidence

from .suite import kept
from .suite.import_graph import check_file


@pytest.fixture(scope="session")
def solution() -> Callable[[str], str]:
    """`solution("ddp")` is the source of the right answer, as the solution notebook has it."""
    return partial(wrong_answers.solution, schedule.load())


@pytest.fixture(scope="session")
def played(solution, request) -> Callable[[Check, int, int], Run]:
    """`played(check, world_size, seed)`: a run of the right answer.

    It is launched once for all tests, and again where the answer, its check or the engine changed.
    """
    graph = request.config.pluginmanager.get_plugin("hpml turns").graph

    def run_of(check: Check, world_size: int, seed: int) -> Run:
        if why := flavour.missing(check.needs):
            pytest.skip(why)
        source = solution(check.id).replace("%%answer", "#", 1)

        def launched() -> Run:
            run, fault = play_once(check, source, world_size, seed)
            assert fault is None, fault.diagnosis
            return run

        files = [check_file(check.id), "src/hpml/checks/plays.py"]
        return kept.once(graph.key(files, source, f"{world_size} {seed}"), launched)

    return run_of


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


@pytest.fixture
def with_ranks() -> Callable[..., Run]:
    """`with_ranks(run, change, stage)`: with `change(rank's evidence)` for each rank's evidence."""

    def changed(
        run: Run, change: Callable[[RankEvidence], RankEvidence], stage: str = "play"
    ) -> Run:
        evidence = run.stages[stage]
        evidence = replace(evidence, ranks=tuple(map(change, evidence.ranks)))
        return replace(run, evidence=evidence, stages={**run.stages, stage: evidence})

    return changed


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


@pytest.fixture
def with_taken() -> Callable[..., Run]:
    """`with_taken(run, rank, change, stage)`: with `change(taken)` for the samples that a rank was
    served, a list of batches."""

    def changed(run: Run, rank: int, change: Callable, stage: str = "play") -> Run:
        evidence = run.stages[stage]
        ranks = list(evidence.ranks)
        batches = change([asked.request["take"] for asked in ranks[rank].asked])
        asked = tuple(Asked({"take": batch, "worker": None}, 0.0, 0.0) for batch in batches)
        ranks[rank] = replace(ranks[rank], asked=asked)
        evidence = replace(evidence, ranks=tuple(ranks))
        return replace(run, evidence=evidence, stages={**run.stages, stage: evidence})

    return changed
