"""Exercise async_sgd: right answers hold on any schedule, and what its judges say of other runs."""

import itertools
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.checks import judge
from hpml.checks.contract import Run
from hpml.checks.m01_parallel_sgd import _straggler as straggler
from hpml.checks.m01_parallel_sgd.async_sgd import CHECK
from hpml.checks.run_check import examine
from hpml.ranks.evidence import Asked, Diagnosis, Evidence, RankEvidence

SEED = 4
NAMES = ("goes on", "applied", "bound", "converges")


def simulated(ranks, pick, *, wrong=0, rate=straggler.LEARNING_RATE, fresh=True):
    """The evidence of one stage, event by event, as `pick` chooses who delivers next.

    `wrong` is by how much the server errs in the bound; `rate` is what it applies gradients with;
    without `fresh`, workers go on with the weights they got first. Nobody's time passes.
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
                if fresh or worker not in seen:
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


@pytest.mark.parametrize("seed", [1, 20_000])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("async_sgd", solution("async_sgd"), seed=seed)
    assert verdict.passed, verdict
    assert verdict.earned == 15


@pytest.mark.parametrize("seed", [3, 4])
def test_the_solution_holds_where_ranks_come_late(solution, seed):
    source = solution("async_sgd")
    assert examine("async_sgd", source, worlds=(4,), seed=seed, delayed=True).verdict.passed


WORK = """
def work(weights, gradient, steps):
    for _ in range(steps):
        dist.recv(weights, src=0)
        dist.send(gradient(weights), dst=0)
"""
OTHER_WAYS = {
    "a thread for each worker": """
import threading
import torch
import torch.distributed as dist

def serve(weights, learning_rate, steps, staleness):
    workers = range(1, dist.get_world_size())
    made, turn = dict.fromkeys(workers, 0), threading.Condition()
    def attend(worker):
        nonlocal weights
        received = torch.empty_like(weights)
        for step in range(steps):
            with turn:
                turn.wait_for(lambda: step - staleness <= min(made.values()))
                now = weights
            dist.send(now, dst=worker)
            dist.recv(received, src=worker)
            with turn:
                weights = weights - learning_rate * received
                made[worker] += 1
                turn.notify_all()
    threads = [threading.Thread(target=attend, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return weights
"""
    + WORK,
    "workers that ask, with tags": """
import torch
import torch.distributed as dist

def serve(weights, learning_rate, steps, staleness):
    made = {worker: 0 for worker in range(1, dist.get_world_size())}
    asking, message = [], torch.zeros(len(weights) + 1, dtype=torch.float64)
    left = (steps + steps) * len(made)
    while left:
        worker = dist.recv(message, tag=5)
        left -= 1
        if message[0]:
            weights = weights - learning_rate * message[1:]
            made[worker] += 1
        else:
            asking.append(worker)
        for ready in list(asking):
            if made[ready] - min(made.values()) <= staleness:
                asking.remove(ready)
                dist.send(weights, dst=ready)
    return weights

def work(weights, gradient, steps):
    message = torch.zeros(len(weights) + 1, dtype=torch.float64)
    for _ in range(steps):
        dist.send(torch.zeros_like(message), dst=0, tag=5)
        dist.recv(weights, src=0)
        message[0], message[1:] = 1, gradient(weights)
        dist.send(message, dst=0, tag=5)
""",
}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_any_protocol_that_keeps_the_rule_is_right(way):
    verdict = judge("async_sgd", OTHER_WAYS[way], seed=SEED)
    assert verdict.passed, verdict


@settings(max_examples=60)
@given(st.integers(1, 4), st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_whatever_the_schedule_a_server_that_keeps_the_rule_has_no_problems(world, seed, chance):
    assert problems(run_of(world, seed, pick=chance.choice)) == {}


@pytest.mark.parametrize("world_size", [3, 4])
@pytest.mark.parametrize(
    ("server", "found"),
    [
        ({"wrong": -1}, dict.fromkeys(NAMES, "strict")),
        ({"wrong": -3}, dict.fromkeys(NAMES, "barrier")),
        ({"wrong": 1}, {"bound": "bound"}),
        ({"wrong": 100}, {"bound": "bound"}),
        ({"rate": -straggler.LEARNING_RATE}, {"applied": "sign", "bound": "sign"}),
        ({"rate": 2 * straggler.LEARNING_RATE}, {"applied": "twice", "bound": "twice"}),
        ({"fresh": False}, {"bound": "stale"}),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_each_misconception_meets_its_hint(world_size, server, found, seed):
    got = problems(run_of(world_size, seed, **server))
    got.pop("converges" if "converges" not in found else "", None)
    if server.get("rate", 0) > 0:
        got.pop("bound", None)  # twice as many gradients may still be a number of gradients
        found = {name: hint for name, hint in found.items() if name != "bound"}
    assert got == found


@pytest.mark.parametrize("world_size", [3, 4])
def test_a_mean_over_the_workers_is_told_as_such(world_size):
    run = run_of(world_size, rate=straggler.LEARNING_RATE / (world_size - 1))
    assert problems(run)["applied"] == "mean"


def with_counters(rank, place, number):
    """The rank's evidence with that number in each counter of the weights it asked with."""
    asked = list(rank.asked)
    weights = asked[place].request["weights"].clone()
    weights[straggler.MODEL :] = number
    asked[place] = replace(asked[place], request={"weights": weights})
    return replace(rank, asked=tuple(asked))


def with_stage(run, stage, change):
    evidence = run.stages[stage]
    changed = replace(evidence, ranks=tuple(change(rank) for rank in evidence.ranks))
    return replace(run, stages={**run.stages, stage: changed})


@pytest.mark.parametrize("stage", ["free", "held"])
@pytest.mark.parametrize("final", [None, torch.zeros(3), "weights"])
def test_what_is_not_the_weights_is_told_so(stage, final):
    def change(rank):
        return rank if rank.rank else replace(rank, value=final)

    found = problems(with_stage(run_of(3), stage, change))
    assert found == {"applied": "types", "converges": "types"}


def test_a_model_that_was_not_trained_does_not_converge():
    run = run_of(3)

    def change(rank):
        if rank.rank:
            return rank
        final = rank.value.clone()
        final[: straggler.MODEL] = run.inputs["free"][0]["weights"][: straggler.MODEL]
        return replace(rank, value=final)

    assert problems(with_stage(run, "free", change)) == {"applied": "start", "converges": "start"}


def test_workers_that_compute_too_little_or_nothing_are_found():
    def change(rank):
        return replace(rank, asked=()) if rank.rank == 1 else rank

    run = run_of(2)
    assert problems(with_stage(run, "free", change)) == {"applied": "steps"}
    assert problems(with_stage(run, "held", change))["goes on"] == "steps"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -3.0, 1.0 / 3.0, 99.0])
def test_counters_that_count_nothing_are_found(number):
    def change(rank):
        if rank.rank != 1:
            return rank
        return with_counters(rank, 3, number)

    assert problems(with_stage(run_of(3), "free", change)) == {"bound": "protocol"}


def test_weights_of_another_shape_are_refused_where_they_are_used(solution):
    source = solution("async_sgd").replace("gradient(weights)", "gradient(weights[:-1])")
    verdict = judge("async_sgd", source, worlds=(2,), seed=SEED)
    assert "weights are of shape (6,), expected (7,)" in verdict.headline


def test_first_weights_of_the_workers_own_are_found():
    def change(rank):
        if rank.rank != 1:
            return rank
        return with_counters(rank, 0, 1000.0)

    assert problems(with_stage(run_of(3), "free", change)) == {"bound": "own_weights"}


@pytest.mark.parametrize("kind", ["raised", "exited", "mismatch"])
def test_a_stage_that_ends_for_another_reason_says_so(kind):
    run = run_of(3, wrong=-3)
    told = replace(run.stages["held"], diagnosis=Diagnosis(kind, "rank 1 raised ValueError"))
    run = replace(run, stages={**run.stages, "held": told})
    assert set(problems(run).values()) == {kind}


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
