"""Exercise process_group: what its judges say of settings that are made by hand."""

import types
from dataclasses import asdict, replace

import pytest

from hpml.checks import find, judge
from hpml.modules.m06_torch_distributed.checks import process_group as exercise
from hpml.modules.m06_torch_distributed.checks._launchers import (
    another_job_came_first,
    cases,
    neighbouring_jobs,
)

SEED = 11


def right(case):
    """What `settings` should make of a case."""
    told = {key: value for key, value in asdict(case).items() if key in exercise.KEYS}
    return told | {"master_port": 10_000 + case.job % 20_000 if case.job else case.port}


def values(world_size, change=lambda case, told: told):
    """What a right answer's ranks bring back, with `change` made to each set of settings."""
    told = [change(case, right(case)) for case in cases(SEED)]
    job = next(case for case in cases(SEED) if case.job)
    ports = [
        made.get("master_port") if isinstance(made, dict) else None
        for each in neighbouring_jobs(SEED)
        for made in [change(job, right(replace(job, job=each)))]
    ]
    own = right(job)
    total = sum(item["number"] for item in exercise.inputs(SEED, world_size))
    return [
        {
            "seen": told[rank::world_size],
            "ports": ports[rank::world_size],
            "own": own | {"rank": rank, "world_size": world_size},
            "started": own | {"rank": rank, "world_size": world_size},
            "group": {"rank": rank, "world_size": world_size, "sum": total},
        }
        for rank in range(world_size)
    ]


def problems(run):
    return {
        claim.judge.__name__.removeprefix("judge_"): problem.hint
        for claim in find("process_group").claims
        if (problem := claim.judge(run)) is not None
    }


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_right_settings_meet_no_objection(hand_made, world_size):
    assert problems(hand_made(exercise.CHECK, values(world_size), seed=SEED)) == {}


@pytest.mark.parametrize(
    ("change", "claim", "hint"),
    [
        (lambda case, told: told | {"rank": float(case.rank)}, "srun", "types"),
        (lambda case, told: told | {"world_size": True}, "torchrun", "types"),
        (lambda case, told: told | {"master_address": None}, "master", "types"),
        (lambda case, told: told | {"master_port": 80}, "port", "port_range"),
        (lambda case, told: told | {"master_port": 70_000}, "port", "port_range"),
        (lambda case, told: told | {"device": 0}, "device", "types"),
        (lambda case, told: "KeyError: 'RANK'", "srun", "srun"),
        (lambda case, told: "KeyError: 'RANK'", "device", "torchrun"),
        (lambda case, told: "ZeroDivisionError: modulo by zero", "device", "device"),
        (lambda case, told: None, "torchrun", "keys"),
        (lambda case, told: {}, "device", "keys"),
    ],
)
def test_wrong_settings_meet_their_hint(hand_made, change, claim, hint):
    found = problems(hand_made(exercise.CHECK, values(2, change), seed=SEED))
    assert found[claim] == hint


def test_an_exported_port_that_is_ignored_is_told_from_a_fixed_one(hand_made):
    def derive(case, told):
        exported = case.launcher == "srun" and "MASTER_PORT" in case.environment
        return told | ({"master_port": 12_345} if exported else {})

    run = hand_made(exercise.CHECK, values(3, derive), seed=SEED)
    assert problems(run) == {"port": "exported"}


@pytest.mark.parametrize("value", [None, [], {}, {"seen": "no"}, {"seen": [1]}, {"group": 3}])
def test_ranks_that_bring_back_something_else_fail_every_claim(hand_made, value):
    run = hand_made(exercise.CHECK, [value, value], seed=SEED)
    assert len(problems(run)) == 6


def test_ranks_that_cannot_meet_are_not_started():
    settings = [{"rank": 0, "world_size": 2, "master_address": "a"}, "KeyError: 'RANK'"]
    assert exercise.cannot_meet(settings, "a", "7") == ""
    assert exercise.cannot_meet(settings, "b", "7") == "rank 0 has master_address 'a'"
    settings[1] = {"rank": 0, "world_size": 2}
    assert exercise.cannot_meet(settings, "a", "7") == "rank 1 has rank 0"
    settings[1] = {"rank": 1.0, "world_size": 4}
    assert exercise.cannot_meet(settings, "a", "7") == "rank 1 has world_size 4"
    settings[1] = {"master_port": 29500}
    assert "another job" in exercise.cannot_meet(settings, "a", "7")
    assert exercise.cannot_meet(settings, "a", "29500") == ""


def test_no_other_job_has_the_port_that_this_one_was_given(monkeypatch):
    monkeypatch.setenv("MASTER_PORT", "29500")
    with another_job_came_first() as holding:
        assert holding.getsockname()[1] == 0


def test_their_start_is_judged_when_the_settings_are_right(hand_made):
    apart = {"apart": "rank 1 has rank 0"}

    def ignored(case, told):
        exported = case.launcher == "srun" and "MASTER_ADDR" in case.environment
        return told | ({"master_address": "node1"} if exported else {})

    made = [value | apart for value in values(3, ignored)]
    run = hand_made(exercise.CHECK, made, seed=SEED)
    assert problems(run) == {"master": "exported", "start": "exported"}
    assert exercise.judge_start(run) == exercise.judge_master(run)
    run = hand_made(exercise.CHECK, [value | apart for value in values(3)], seed=SEED)
    assert problems(run) == {"start": "group"}
    assert "rank 1 has rank 0" in exercise.judge_start(run).message


def test_a_sum_that_is_one_ranks_own_is_not_taken(hand_made):
    wrong = values(2)
    wrong[1]["group"]["sum"] = exercise.inputs(SEED, 2)[1]["number"]
    assert problems(hand_made(exercise.CHECK, wrong, seed=SEED)) == {"start": "group"}


def test_settings_of_one_environment_for_all_have_one_hint_in_every_claim(hand_made):
    mine = right(cases(SEED)[0]) | {"device": "cpu"}
    found = problems(hand_made(exercise.CHECK, values(2, lambda case, told: mine), seed=SEED))
    assert set(found.values()) == {"given"}


def test_a_start_not_yet_written_leaves_the_other_claims():
    source = """
    def settings(environment, gpus):
        return {}

    def start():
        raise NotImplementedError()
    """.replace("\n    ", "\n")
    verdict = judge("process_group", source, worlds=(2,), seed=SEED)
    assert not any(claim.passed for claim in verdict.claims)
    assert verdict.claims[0].hint_key == "keys"
    assert "start is not written" in verdict.claims[-1].message


@pytest.mark.parametrize("change", [{"node_rank": 7}, {"device": "cuda:0"}, {"master_port": 29500}])
def test_what_start_returns_is_what_settings_found(hand_made, change):
    wrong = values(2)
    wrong[1]["started"] |= change
    assert problems(hand_made(exercise.CHECK, wrong, seed=SEED)) == {"start": "passed_on"}
    del wrong[1]["started"]["device"]
    assert problems(hand_made(exercise.CHECK, wrong, seed=SEED))["start"] in ("keys", "passed_on")


def test_the_text_has_the_right_numbers(solution):
    answer = types.ModuleType("answer")
    exec("#" + solution("process_group"), answer.__dict__)
    assert answer.tasks_per_node("2(x2),1") == [2, 2, 1]
    assert answer.first_host("gpu-a[08-10],login1") == "gpu-a08"
    (spread,) = {case.name for case in cases(SEED) if case.name.startswith("sbatch and srun, five")}
    assert sum(case.local_rank == 0 for case in cases(SEED) if case.name == spread) == 3
    third = [case for case in cases(SEED) if "--gpus-per-task=1" in case.name][3]
    assert (third.local_rank, third.gpus, third.device) == (3, 1, "cuda:0")
