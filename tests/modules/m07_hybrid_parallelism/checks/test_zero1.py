"""Exercise zero1: what its judges say of a good run with one thing changed."""

import re
from dataclasses import replace

import pytest
import torch

from hpml.modules.m07_hybrid_parallelism.checks import zero1
from hpml.modules.m07_hybrid_parallelism.checks._optimizer_jobs import (
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
from hpml.modules.m07_hybrid_parallelism.checks.zero1 import CHECK
from hpml.predict.zero import Bytes, on_a_rank

PARITY, GROUPS, OWNERS, _, MEMORY, TRAVELS, STATE = [claim.judge for claim in CHECK.claims]
MIB = 2**20


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


@pytest.fixture
def changed(good, with_ranks):
    """`changed(change, stage)`: the good run with `change(rank evidence)` for each rank's."""
    return lambda change, stage="steps": with_ranks(good, change, stage)


@pytest.fixture
def with_job(good, with_value):
    """`with_job(index, change, rank)`: with `change(job)` for what a rank returned of a job."""

    def made(index, change, rank=1):
        def of_value(jobs):
            return [change(job) if n == index else job for n, job in enumerate(jobs)]

        return with_value(good, rank, of_value, "steps")

    return made


def test_inputs_differ_between_seeds_and_each_answer_meets_all_optimizers():
    first, second = (inputs(seed, 1)[0]["jobs"][0]["parameters"][0] for seed in (1, 2))
    assert not torch.equal(first, second)
    drawn = {inputs(1, size)[0]["jobs"][2]["optimizer"] for size in (1, 2, 3, 4)}
    assert drawn == {name for name, _ in MORE}


def test_a_parameter_that_differs_is_named(with_job):
    def shifted(job):
        last = [p + 1e-3 for p in job["after"][-1]]
        return {**job, "after": [*job["after"][:-1], last]}

    claims = (PARITY, PARITY, PARITY, GROUPS, GROUPS, OWNERS)
    for index, judge_it in enumerate(claims):
        problem = judge_it(with_job(index, shifted))
        assert "after step 4, rank 1's parameter 0" in problem.message
        assert problem.hint == "moments"


def test_who_updates_is_known_from_the_factors_that_ranks_ask_for(good, changed):
    def by_all(rank):
        (theirs,) = (r for r in good.stages["steps"].ranks if r.rank != rank.rank)
        more = [a for a in theirs.asked if isinstance(a.request, list) and not a.refused]
        # In the first of the last job's steps
        place = [n for n, a in enumerate(rank.asked) if a.request == "step"][-STEPS] + 1
        asked = (*rank.asked[:place], *more[:1], *rank.asked[place:])
        return replace(rank, asked=asked)

    def nobody(rank):
        return replace(rank, asked=tuple(a for a in rank.asked if not isinstance(a.request, list)))

    silent = changed(lambda rank: replace(by_all(rank), calls=()))
    assert TRAVELS(silent).hint == "replicated"
    assert "updated 0 times" in OWNERS(changed(nobody)).message


def test_each_seed_has_a_generator_a_rank_without_a_parameter_and_two_dtypes():
    for seed in (1, 2):
        jobs = inputs(seed, 2)[0]["jobs"]
        assert any(job["generator"] and len(job["options"]) == 1 for job in jobs)
        assert any(job["generator"] and len(job["options"]) > 2 for job in jobs)
        assert any(job["once"] for job in jobs)
        assert not all(job["generator"] for job in jobs)
        assert min(len(job["parameters"]) for job in jobs) == 1
        assert len({p.dtype for p in jobs[-1]["parameters"]}) == 2


@pytest.mark.parametrize("size", [2, 3, 4])
def test_owners_by_elements_have_not_alike_bytes_and_by_bytes_they_have(good, size):
    def judged(weights):
        loads, by_rank = [0] * size, [[] for _ in range(size)]
        for number, weight in enumerate(weights):
            owner = loads.index(min(loads))
            loads[owner] += weight
            by_rank[owner].append(number)
        given = {number: {rank} for rank, own in enumerate(by_rank) for number in own}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(zero1, "updated_once", lambda run: None)
            patch.setattr(zero1, "owners", lambda run: given)
            return zero1.balanced(replace(good, world_size=size))

    parameters = good.inputs["steps"][0]["jobs"][-1]["parameters"]
    assert judged([p.nbytes for p in parameters]) is None
    assert judged([p.numel() for p in parameters]).hint == "balance"


def test_ranks_that_own_nothing_at_first_own_late_parameters_and_these_are_most_of_the_bytes():
    job = inputs(1, 2)[0]["jobs"][3]
    first, late = (
        [p.nbytes for p, own in zip(job["parameters"], job["groups"], strict=True) if own == group]
        for group in (0, 1)
    )
    assert len(first) == 1
    assert first[0] < min(late)
    assert 2 * sum(late) > zero1.MOST * (sum(first) + sum(late)) - sum(first)


def test_one_billion_parameters_take_the_gigabytes_of_the_answer():
    each = Bytes(4, 4, 8)  # float32, and two moments
    assert on_a_rank(0, 1e9, 8, each).total == 16e9
    assert on_a_rank(1, 1e9, 8, each).total == 9e9


def test_gradients_that_zero_grad_leaves_are_named(with_job):
    problem = PARITY(with_job(1, lambda job: {**job, "left": [0]}))
    assert "after zero_grad(), rank 1's parameter 0" in problem.message
    assert problem.hint == "zero_grad"


def test_param_groups_are_the_plain_optimizers_on_every_rank(with_job):
    def fewer(job):
        return {**job, "groups": [{**group, "params": []} for group in job["groups"]]}

    def bare(job):
        return {**job, "groups": [{"params": group["params"]} for group in job["groups"]]}

    for index, none in enumerate(("[[]]", "[[]]", "[[]]", "[[], []]", "[[], [], []]")):
        for change, seen in ((fewer, f"the parameters {none}"), (bare, "other options")):
            problem = GROUPS(with_job(index, change))
            assert "rank 1's param_groups" in problem.message
            assert seen in problem.message
            assert problem.hint == "param_groups"


@pytest.mark.measures
@pytest.mark.parametrize(("more", "hint"), [(2, None), (32, "memory")])
def test_memory_is_the_kernels_count(changed, more, hint):
    problem = MEMORY(
        changed(lambda rank: replace(rank, peak_bytes=rank.peak_bytes + more * MIB), "memory")
    )
    assert (problem and problem.hint) == hint


@pytest.mark.parametrize(("factor", "hint"), [(0, "not_sent"), (0.5, "not_sent"), (2, "wire")])
def test_bytes_within_a_step_are_those_of_its_parameters(changed, factor, hint):
    def scaled(rank):
        calls = (replace(call, nbytes=int(factor * call.nbytes)) for call in rank.calls)
        return replace(rank, calls=tuple(calls))

    assert TRAVELS(changed(scaled)).hint == hint


def test_an_all_reduce_beside_the_parameters_is_of_gradients(changed):
    def reduces(rank):
        more = [replace(call, operation="all_reduce") for call in rank.calls]
        return replace(rank, calls=(*rank.calls, *more))

    problem = TRAVELS(changed(reduces))
    assert "in all_reduce" in problem.message
    assert "bytes of parameters" not in problem.message
    assert problem.hint == "averaged"


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda state: None, "gather"),
        (lambda state: {"state": state["state"]}, "gather"),
        (lambda state: {**state, "state": {}}, "gather"),
        (lambda state: {**state, "param_groups": []}, "state_groups"),
    ],
)
def test_a_state_that_is_not_the_plain_optimizers_is_found(with_job, change, hint):
    run = with_job(0, lambda job: {**job, "state": change(job["state"])}, rank=0)
    assert STATE(run).hint == hint


def test_states_in_other_places_are_not_missing_ones(with_job):
    def shifted(job):
        states = job["state"]["state"]
        moved = {"0": states["2"], "1": states["1"]}
        return {**job, "state": {**job["state"], "state": moved}}

    assert STATE(with_job(0, shifted, rank=0)).hint == "indices"


def test_states_of_wrong_steps_are_explained_by_the_steps(with_job):
    def other(job):
        states = job["state"]["state"]
        twice = {name: 2 * moment for name, moment in states["0"].items()}
        return {**job, "state": {**job["state"], "state": {**states, "0": twice}}}

    def stale(job):
        return {**other(job), "after": [job["after"][0], job["after"][0], *job["after"][2:]]}

    assert STATE(with_job(0, other, rank=0)).hint == "steps"
    run = with_job(0, stale, rank=0)
    assert PARITY(run).hint == "unchanged"
    assert STATE(run) == PARITY(run)


def test_only_rank_0_has_the_state(with_job):
    assert STATE(with_job(0, lambda job: {**job, "state": {}})).hint == "gather"


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


PLAIN = """
class ZeroOptimizer:
    def __init__(self, parameters, kind, **defaults):
        self.step = kind(parameters, **defaults).step
"""


def test_the_picture_shows_what_a_rank_holds(solution, monkeypatch):
    from hpml.modules.m07_hybrid_parallelism.lecture import memory_picture

    titles, draw = [], memory_picture.memory_picture
    monkeypatch.setattr(
        memory_picture, "memory_picture", lambda *a, title: titles.append(title) or draw(*a)
    )
    for answer in (solution("zero1"), PLAIN):
        assert CHECK.picture(CHECK, answer).png.startswith(b"\x89PNG")
    shared, whole = (int(re.search(r"(\d+)% of what one alone holds", t)[1]) for t in titles)
    # 16 bytes a parameter with Adam, of which 8 are shared by four: 10; besides, Adam's own copies
    assert 60 < shared < 72
    assert whole == 100
