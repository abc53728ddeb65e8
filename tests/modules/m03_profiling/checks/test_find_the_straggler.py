"""The check of find_the_straggler: what it plays, and how its judges tell mistakes apart."""

import json
from types import ModuleType

import pytest

from hpml.answer import as_python
from hpml.checks.contract import Run
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m03_profiling.checks._moments import own_work
from hpml.modules.m03_profiling.checks._planted_ranks import PHASES
from hpml.modules.m03_profiling.checks._straggler_cases import (
    LATE,
    SLOWER,
    STEPS_IN_A_ROW,
    cases,
    latest_clock,
    longest_wait,
)
from hpml.modules.m03_profiling.checks.find_the_straggler import CHECK, drive, inputs
from hpml.ranks.evidence import Evidence, RankEvidence

WRONG = wrong_answers.read(schedule.load(), "find_the_straggler")
SEEDS = range(6)
JOBS = len(cases(0))


def run_of(value, seed: int = 0) -> Run:
    evidence = Evidence(1, (RankEvidence(0, "returned", value=value),), 0.1)
    return Run(1, seed, None, None, evidence, {"play": evidence})


def hints(value, seed: int = 0) -> list[str]:
    problems = [claim.judge(run_of(value, seed)) for claim in CHECK.claims]
    return [problem.hint if problem else "" for problem in problems]


def right(seed: int) -> list:
    return [
        None if case.straggler is None else [case.straggler, case.since, list(case.phases)]
        for case in cases(seed)
    ]


def played(source: str, seed: int) -> list[str]:
    """The hints that an answer gets, played in this process."""
    answer = ModuleType("answer")
    exec(source, vars(answer))
    return hints(drive(answer, inputs(seed, 1)[0]), seed)


def test_the_right_answer_is_right_whatever_the_jobs(solution):
    source = as_python(solution("find_the_straggler"))
    assert all(played(source, seed) == [""] * 5 for seed in range(12))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_answer_gets_its_hint_and_no_other_whatever_the_jobs(wrong, solution):
    source = as_python(wrong.answer(solution("find_the_straggler")))
    for seed in SEEDS:
        assert {*played(source, seed)} - {""} == {wrong.hint}, seed


def test_jobs_are_fresh_for_every_seed():
    for position in range(len(cases(0))):
        assert len({json.dumps(inputs(seed, 1)[0][position]) for seed in SEEDS}) == len(SEEDS)


def test_who_is_late_follows_from_the_own_work_and_by_a_margin():
    """By the rules of the text, with room between what is late and what is not."""
    for seed in range(20):
        for case in cases(seed):
            if case.recorded:
                continue
            steps = list(case.ranks[0].steps)
            ranks = [own_work(made) for made in case.ranks]
            work = [[sum(own[step, phase] for phase in PHASES) for step in steps] for own in ranks]
            late = []
            for same in zip(*work, strict=True):
                second, most = sorted(same)[-2:]
                excess = most / second - 1
                assert excess < 0.85 * LATE or excess > 1.3 * LATE, (seed, case.name)
                late.append(same.index(most) if excess > LATE else None)
            run = next((k for k, one in enumerate(reversed(late)) if one != late[-1]), len(late))
            if case.straggler is None:
                assert late[-1] is None or run < STEPS_IN_A_ROW
                continue
            assert (late[-1], steps[-run]) == (case.straggler, case.since)
            for phase in PHASES:
                own = [sum(one[step, phase] for step in steps[-run:]) for one in ranks]
                mean = (sum(own) - own[case.straggler]) / (len(own) - 1)
                ratio = own[case.straggler] / mean
                assert (ratio > SLOWER * 1.02) if phase in case.phases else ratio < SLOWER / 1.02


def test_in_the_first_job_the_usual_suspects_are_four_ranks():
    for seed in range(20):
        first, *_ = cases(seed)
        suspects = [longest_wait(first.ranks), latest_clock(first.ranks), len(first.ranks) - 1]
        assert len({first.straggler, *suspects}) == 4


def test_stragglers_are_any_rank_and_so_are_steps():
    named = {one.straggler for seed in SEEDS for one in cases(seed)}
    assert named >= {None, 0, 1, 2, 3}
    assert len({one.since for seed in SEEDS for one in cases(seed) if one.phases}) > 10


@pytest.mark.parametrize(
    "value", [None, 3, [], "text", [[1, 2]] * JOBS, [[1, 2, ["sleep"]]] * JOBS]
)
def test_what_is_no_such_list_is_reported(value):
    assert hints(value)[0] == "shape"


def test_a_bool_is_no_rank_and_a_float_no_step():
    for odd in ([True, 7, ["loading"]], [1, 7.0, ["loading"]], [1, 7, "loading"]):
        assert hints([odd] * JOBS)[0] == "shape"


def test_nobody_at_all_is_no_answer():
    assert hints([None] * JOBS) == ["own"] * 5


def test_phases_may_come_in_any_order():
    values = [one and [*one[:2], one[2][::-1]] for one in right(1)]
    assert hints(values, 1) == [""] * 5
