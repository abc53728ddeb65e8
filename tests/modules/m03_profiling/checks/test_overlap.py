"""The check of overlap: its truth holds for what is played, and its judges tell mistakes apart."""

import json
from types import ModuleType

import pytest

from hpml.answer import as_python
from hpml.checks.contract import Run
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m03_profiling.checks._moments import counts
from hpml.modules.m03_profiling.checks._overlap_cases import cases
from hpml.modules.m03_profiling.checks._overlap_truth import KEYS, truth
from hpml.modules.m03_profiling.checks.overlap import CHECK, drive, inputs
from hpml.ranks.evidence import Evidence, RankEvidence

WRONG = wrong_answers.read(schedule.load(), "overlap")
SEEDS = range(6)


def run_of(value, seed: int = 0) -> Run:
    evidence = Evidence(1, (RankEvidence(0, "returned", value=value),), 0.1)
    return Run(1, seed, None, None, evidence, {"play": evidence})


def problems(value, seed: int = 0) -> list:
    return [claim.judge(run_of(value, seed)) for claim in CHECK.claims]


def right(seed: int) -> list:
    return [[truth(made) for made in case.ranks] for case in cases(seed)]


def played(source: str, seed: int) -> list[str]:
    """The hints that an answer gets, played in this process."""
    answer = ModuleType("answer")
    exec(source, vars(answer))
    found = problems(drive(answer, inputs(seed, 1)[0]), seed)
    return [problem.hint if problem else "" for problem in found]


def test_the_right_answer_is_right_whatever_the_jobs(solution):
    source = as_python(solution("overlap"))
    assert all(played(source, seed) == ["", "", ""] for seed in SEEDS)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_answer_gets_its_hint_and_no_other_whatever_the_jobs(wrong, solution):
    source = as_python(wrong.answer(solution("overlap")))
    for seed in SEEDS:
        assert {*played(source, seed)} - {""} == {wrong.hint}, seed


def test_jobs_are_fresh_for_every_seed():
    for position in range(len(cases(0))):
        assert len({json.dumps(inputs(seed, 1)[0][position]) for seed in SEEDS}) == len(SEEDS)


def test_parts_add_up_to_the_communication_and_each_is_there():
    for seed in SEEDS:
        total = dict.fromkeys(KEYS, 0.0)
        for case in cases(seed):
            for made in case.ranks:
                length = max(end for _, end in made.steps.values())
                busy = counts(((one.begin, one.end) for one in made.collectives), length) > 0
                for (begin, end), parts in zip(made.steps.values(), truth(made), strict=True):
                    assert sum(parts.values()) == pytest.approx(busy[begin:end].sum() / 1e6)
                    total = {key: total[key] + parts[key] for key in KEYS}
        assert min(total.values()) > 0.05


def test_the_lagging_rank_of_the_recorded_job_waits_for_nobody():
    """Rank 2 of the recording computed three times as long in backward as the others."""
    for seed in SEEDS:
        *_, case = cases(seed)
        shares = []
        for made in case.ranks:
            parts = truth(made)
            communication = sum(sum(one.values()) for one in parts)
            shares.append(sum(one["waiting"] for one in parts) / communication)
        assert min(shares) < 0.01
        assert sorted(shares)[1] > 0.1


def test_1_percent_is_enough_and_4_percent_too_many():
    for factor, hints in ((1.008, {""}), (1.04, {"moments"})):
        values = [
            [[{key: one[key] * factor for key in KEYS} for one in rank] for rank in ranks]
            for ranks in right(3)
        ]
        assert {problem.hint if problem else "" for problem in problems(values, 3)} == hints


@pytest.mark.parametrize("value", [None, 3, [], [None], "text", [[[{"hidden": 1.0}]]] * 7])
def test_what_has_another_shape_is_reported(value):
    assert {problem.hint for problem in problems(value)} == {"shape"}


@pytest.mark.parametrize("odd", [True, "1", float("nan"), 10**4000])
def test_what_is_no_number_of_seconds_is_reported(odd):
    values = [[[{**one, "hidden": odd} for one in rank] for rank in ranks] for ranks in right(1)]
    assert all(problems(values, 1)[::2])
