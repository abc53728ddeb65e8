"""Exercise zero1: what its judges say of a good run, and of the same run with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.checks import judge
from hpml.checks.m07_hybrid_parallelism._optimizer_jobs import (
    LATE,
    MORE,
    SIZES,
    STEPS,
    UNUSED,
    UNUSED_IN,
    inputs,
    moments,
    serve,
    updated_in,
)
from hpml.checks.m07_hybrid_parallelism.zero1 import BYTES, CHECK

PARITY, GROUPS, OWNERS, BALANCE, MEMORY, TRAVELS, STATE = [claim.judge for claim in CHECK.claims]
MIB = 2**20


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def with_ranks(run, change, stage="steps"):
    """The run with `change(rank evidence)` in place of each rank's evidence in a stage."""
    evidence = run.stages[stage]
    changed = replace(evidence, ranks=tuple(change(rank) for rank in evidence.ranks))
    return replace(run, stages={**run.stages, stage: changed})


def with_job(run, index, change, rank=1):
    """The run with `change(value)` in place of what a rank returned of a job."""

    def of_rank(one):
        if one.rank != rank:
            return one
        jobs = [change(job) if n == index else job for n, job in enumerate(one.value)]
        return replace(one, value=jobs)

    return with_ranks(run, of_rank)


@pytest.mark.parametrize("seed", [1, 20_000])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("zero1", solution("zero1"), seed=seed)
    assert verdict.passed, verdict


def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_differ_between_seeds_and_all_optimizers_are_drawn():
    first, second = (inputs(seed, 1)[0]["jobs"][0]["parameters"][0] for seed in (1, 2))
    assert not torch.equal(first, second)
    drawn = {inputs(seed, 1)[0]["jobs"][2]["optimizer"] for seed in range(30)}
    assert drawn == {name for name, _ in MORE}


def test_a_parameter_that_differs_is_named(good):
    def shifted(job):
        last = [p + 1e-3 for p in job["after"][-1]]
        return {**job, "after": [*job["after"][:-1], last]}

    for index, judge_it in ((0, PARITY), (1, PARITY), (2, PARITY), (3, GROUPS), (4, OWNERS)):
        problem = judge_it(with_job(good, index, shifted))
        assert "after step 4, rank 1's parameter 0" in problem.message
        assert problem.hint == "moments"


def test_a_value_of_the_step_before_was_not_sent(good):
    def stale(job):
        after = [list(step) for step in job["after"]]
        after[2][0] = after[1][0]
        return {**job, "after": after}

    assert PARITY(with_job(good, 1, stale)).hint == "not_sent"


def test_who_updates_is_known_from_the_factors_that_ranks_ask_for(good):
    def by_all(rank):
        (theirs,) = (r for r in good.stages["steps"].ranks if r.rank != rank.rank)
        more = [a for a in theirs.asked if isinstance(a.request, list) and not a.refused]
        # In the first of the last job's steps
        place = [n for n, a in enumerate(rank.asked) if a.request == "step"][-STEPS] + 1
        asked = (*rank.asked[:place], *more[:1], *rank.asked[place:])
        return replace(rank, asked=asked)

    def nobody(rank):
        return replace(rank, asked=tuple(a for a in rank.asked if not isinstance(a.request, list)))

    assert OWNERS(with_ranks(good, by_all)).hint == "replicated"
    silent = with_ranks(good, lambda rank: replace(by_all(rank), calls=()))
    assert TRAVELS(silent).hint == "replicated"
    assert "updated 0 times" in OWNERS(with_ranks(good, nobody)).message


def test_all_bytes_on_one_rank_are_no_share(good):
    asked = [
        a
        for rank in good.stages["steps"].ranks
        for a in rank.asked
        if isinstance(a.request, list) and not a.refused
    ]
    by_number = {(a.request[1]): a for a in asked}

    def all_on_rank_0(rank):
        kept = [a for a in rank.asked if not isinstance(a.request, list)]
        if rank.rank:
            return replace(rank, asked=tuple(kept))
        steps = [n for n, a in enumerate(kept) if a.request == "step"][-STEPS:]
        for step, place in reversed(list(enumerate(steps))):
            kept[place + 1 : place + 1] = [by_number[n] for n in updated_in(step)]
        return replace(rank, asked=tuple(kept))

    problem = BALANCE(with_ranks(good, all_on_rank_0))
    assert problem.hint == "balance"
    assert f"rank 0 updates {sum(BYTES)} bytes of {sum(BYTES)}" in problem.message


@pytest.mark.parametrize(("more", "hint"), [(0, None), (2, None), (32, "memory")])
def test_memory_is_the_kernels_count(good, more, hint):
    heavier = with_ranks(
        good, lambda rank: replace(rank, peak_bytes=rank.peak_bytes + more * MIB), "memory"
    )
    problem = MEMORY(heavier)
    assert (problem and problem.hint) == hint


@pytest.mark.parametrize(
    ("factor", "hint"), [(1, None), (0, "not_sent"), (0.5, "not_sent"), (2, "wire")]
)
def test_bytes_within_a_step_are_those_of_its_parameters(good, factor, hint):
    def scaled(rank):
        calls = (replace(call, nbytes=int(factor * call.nbytes)) for call in rank.calls)
        return replace(rank, calls=tuple(calls))

    problem = TRAVELS(with_ranks(good, scaled))
    assert (problem and problem.hint) == hint


def renumbered(states):
    return {**states, "0": states["2"], "2": states["0"]}


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda state: None, "gather"),
        (lambda state: {"state": state["state"]}, "gather"),
        (lambda state: {**state, "state": {}}, "gather"),
        (lambda state: {**state, "state": renumbered(state["state"])}, "indices"),
        (lambda state: {**state, "param_groups": []}, "state_groups"),
    ],
)
def test_a_state_that_is_not_the_plain_optimizers_is_found(good, change, hint):
    changed = with_job(good, 0, lambda job: {**job, "state": change(job["state"])}, rank=0)
    assert STATE(changed).hint == hint


def test_states_in_other_places_are_not_missing_ones(good):
    def shifted(job):
        states = job["state"]["state"]
        moved = {"0": states["2"], "1": states["1"]}
        return {**job, "state": {**job["state"], "state": moved}}

    assert STATE(with_job(good, 0, shifted, rank=0)).hint == "indices"


def test_states_of_wrong_steps_are_explained_by_the_steps(good):
    def other(job):
        states = job["state"]["state"]
        twice = {name: 2 * moment for name, moment in states["0"].items()}
        return {**job, "state": {**job["state"], "state": {**states, "0": twice}}}

    def stale(job):
        return {**other(job), "after": [job["after"][0], job["after"][0], *job["after"][2:]]}

    assert STATE(with_job(good, 0, other, rank=0)).hint == "steps"
    run = with_job(good, 0, stale, rank=0)
    assert PARITY(run).hint == "unchanged"
    assert STATE(run) == PARITY(run)


def test_only_rank_0_has_the_state(good):
    assert STATE(with_job(good, 0, lambda job: {**job, "state": {}})).hint == "gather"


def test_factors_are_served_within_a_step_alone():
    _, reply = serve(inputs(3, 1))
    with pytest.raises(ValueError, match="there is no"):
        reply(0, ["factor", 0])
    for moment in moments(1):
        for other in ("stepped", "gathered", "weights", ["factor"], ["factor", len(SIZES)]):
            if other != moment:
                with pytest.raises(ValueError, match="there is no"):
                    reply(0, other)
        reply(0, moment)
        if moment == "step":
            assert isinstance(reply(0, ["factor", 3])[0].value, float)


def test_what_a_step_updates_depends_on_gradients_and_groups():
    assert updated_in(STEPS - 1) == list(range(len(SIZES)))
    for step in UNUSED_IN:
        assert UNUSED not in updated_in(step)
    assert len(updated_in(LATE - 1)) < len(updated_in(LATE))
