"""Exercise async_sgd: a server that keeps the rule holds on any schedule; judges of other runs."""

import itertools
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.checks.contract import Run
from hpml.modules.m01_parallel_sgd.checks import _straggler as straggler
from hpml.modules.m01_parallel_sgd.checks._served_gradients import gradient_for
from hpml.modules.m01_parallel_sgd.checks.async_sgd import CHECK
from hpml.ranks.evidence import Asked, Diagnosis, Evidence, RankEvidence

SEED = 4
NAMES = ("goes on", "applied", "bound", "converges")


def simulated(ranks, pick, *, wrong=0, rate=straggler.LEARNING_RATE):
    """The evidence of one stage, event by event, as `pick` chooses who delivers next.

    `wrong` is by how much the server errs in the bound; `rate` is what it applies gradients with.
    Nobody's time passes.
    """
    of = ranks[0]
    workers = range(1, len(ranks))
    weights = of["weights"].clone()
    clock = itertools.count(1.0)
    asked = {worker: [] for worker in workers}
    made = dict.fromkeys(workers, 0)
    seen, waiting = {}, set(workers)

    def held(worker):
        may = straggler.allowed(made[worker], of["staleness"])
        others = [made[other] for other in workers if other != worker]
        return worker == of["straggler"] and any(count < may for count in others)

    while True:
        slowest = min(made.values(), default=0)
        for worker in sorted(waiting):
            if made[worker] - (of["staleness"] + wrong) <= slowest:
                seen[worker] = weights
                asked[worker].append(Asked({"weights": seen[worker]}, next(clock)))
                waiting.remove(worker)
        busy = [w for w in workers if w not in waiting and made[w] < straggler.STEPS]
        free = [worker for worker in busy if not held(worker)]
        if not free:
            break
        worker = pick(free)
        gradient = straggler.gradient_of(ranks, worker, made[worker], seen[worker])
        weights = weights - rate * gradient
        asked[worker][-1] = replace(asked[worker][-1], answered=next(clock))
        made[worker] += 1
        if made[worker] < straggler.STEPS:
            waiting.add(worker)
    done = all(count == straggler.STEPS for count in made.values())
    values = [weights, *(None for _ in workers)]
    return Evidence(
        len(ranks),
        tuple(
            RankEvidence(
                rank,
                "returned" if done else "ended",
                value if done else None,
                asked=tuple(asked.get(rank, ())),
            )
            for rank, value in enumerate(values)
        ),
        1.0,
        None if done else Diagnosis("hang", "rank 0 waits in recv from anyone"),
    )


def others_first(ranks):
    """The straggler delivers last, as it does where it is held a little longer."""
    return lambda free: min(free, key=lambda worker: (worker == ranks[0]["straggler"], worker))


def run_of(world_size, seed=SEED, pick=None, **server):
    inputs = CHECK.inputs(seed, world_size)
    stages = {
        stage: simulated(ranks, pick or others_first(ranks), **server)
        for stage, ranks in inputs.items()
    }
    expected = CHECK.expect(inputs, world_size)
    return Run(world_size, seed, inputs, expected, stages["held"], stages)


def problems(run):
    judged = zip(NAMES, (claim.judge(run) for claim in CHECK.claims), strict=True)
    return {name: problem.hint for name, problem in judged if problem is not None}


@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_whatever_the_schedule_a_server_that_keeps_the_rule_has_no_problems(world, seed, chance):
    assert problems(run_of(world, seed, pick=chance.choice)) == {}


@pytest.mark.parametrize("stage", ["free", "held", "together"])
@pytest.mark.parametrize("final", [None, torch.zeros(3), "weights"])
def test_what_is_not_the_weights_is_told_so(with_value, stage, final):
    found = problems(with_value(run_of(3), 0, lambda value: final, stage))
    assert found == {"applied": "types", "converges": "types"}


def test_a_model_that_was_not_trained_does_not_converge(with_value):
    run = run_of(3)
    first = run.inputs["free"][0]["weights"][: straggler.MODEL]
    run = with_value(run, 0, lambda final: torch.cat([first, final[straggler.MODEL :]]), "free")
    assert problems(run) == {"applied": "start", "converges": "start"}


def test_workers_that_compute_too_little_or_nothing_are_found(with_ranks):
    def change(rank):
        return replace(rank, asked=()) if rank.rank == 1 else rank

    run = run_of(2)
    assert problems(with_ranks(run, change, "free")) == {"applied": "steps"}
    for stage in ("held", "together"):
        assert problems(with_ranks(run, change, stage))["goes on"] == "steps"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -3.0, 1.0 / 3.0, 99.0])
def test_counters_that_count_nothing_are_found(with_ranks, number):
    def change(rank):
        if rank.rank != 1:
            return rank
        asked = list(rank.asked)
        weights = asked[3].request["weights"].clone()
        weights[straggler.MODEL :] = number
        asked[3] = replace(asked[3], request={"weights": weights})
        return replace(rank, asked=tuple(asked))

    assert problems(with_ranks(run_of(3), change, "free")) == {"bound": "protocol"}


@pytest.mark.parametrize("world_size", [3, 4])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("factor", "hint"), [(-1, "sign"), (2, "twice")])
def test_gradients_that_are_applied_with_another_rate_are_found(world_size, seed, factor, hint):
    rate = factor * straggler.LEARNING_RATE
    assert problems(run_of(world_size, seed, rate=rate))["applied"] == hint


@pytest.mark.parametrize("world_size", [3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_one_gradient_beyond_the_bound_is_too_many_and_one_less_is_too_few(world_size, seed):
    assert problems(run_of(world_size, seed, wrong=1))["bound"] == "bound"
    assert problems(run_of(world_size, seed, wrong=-1)) == dict.fromkeys(NAMES, "strict")


def test_gradients_are_for_weights_of_the_right_shape():
    with pytest.raises(ValueError, match=r"weights are of shape \(6,\), expected \(7,\)"):
        gradient_for(torch.zeros(7))(torch.zeros(6))


@pytest.mark.parametrize("kind", ["raised", "exited", "mismatch"])
def test_a_stage_that_ends_for_another_reason_says_so(kind):
    run = run_of(3, wrong=-3)
    told = replace(run.stages["held"], diagnosis=Diagnosis(kind, "rank 1 raised ValueError"))
    run = replace(run, stages={**run.stages, "held": told})
    assert set(problems(run).values()) == {kind}


def test_the_texts_workers_compute_three_gradients_and_wait_for_the_first_of_the_third():
    assert straggler.allowed(0, staleness=2) == 3


@pytest.mark.parametrize("world_size", [3, 4])
def test_with_a_staleness_of_0_a_round_is_a_step_with_the_sum_of_the_gradients(world_size):
    run = run_of(world_size)
    ranks = run.inputs["together"]
    assert ranks[0]["staleness"] == 0
    weights = ranks[0]["weights"]
    for step in range(straggler.STEPS):
        gradients = [
            straggler.gradient_of(ranks, rank, step, weights) for rank in range(1, world_size)
        ]
        weights = weights - straggler.LEARNING_RATE * sum(gradients)
    assert torch.allclose(run.stages["together"].values[0], weights)


def test_the_straggler_and_its_moment_change_from_draw_to_draw():
    drawn = [CHECK.inputs(seed, 4)["held"][0] for seed in range(40)]
    assert {of["straggler"] for of in drawn} == {1, 2, 3}
    assert {of["longer"] for of in drawn} == {0, 1, 2}
    # A loop over the workers in turn lets the others come two gradients beyond the straggler's.
    assert all(straggler.allowed(0, of["staleness"]) > 3 for of in drawn)
    assert all(straggler.allowed(of["longer"], of["staleness"]) < straggler.STEPS for of in drawn)


def test_weights_of_the_workers_can_never_be_taken_for_the_servers():
    chance = random.Random(SEED)
    for _ in range(10):
        ranks = CHECK.inputs(chance.randrange(10**6), 4)["free"]
        counters = [rank["weights"][straggler.MODEL :] for rank in ranks]
        most = straggler.STEPS * straggler.LEARNING_RATE
        assert all((one - counters[0] > most).all() for one in counters[1:])
