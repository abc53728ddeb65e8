"""Gradient descent in step and out of it: what every update was made of."""

import pytest
import torch

from hpml.modules.m01_parallel_sgd.lecture.updates import asynchronous, synchronous
from hpml.ranks import launch

START = torch.tensor([4.0, -2.0], dtype=torch.float64)
RATE, STEPS = 0.25, 6


def drives():
    """One drive in step, one out of it with a slow worker 1: nested, so that they go by value."""

    def gradient(weights, number):
        return weights + number / 100

    def in_step():
        return synchronous(gradient, START, RATE, STEPS, lambda worker, step: 0.0)

    def out_of_step():
        def pause(worker, step):
            return 0.2 if worker == 1 else 0.002

        return asynchronous(gradient, START, RATE, STEPS, pause)

    return gradient, in_step, out_of_step


gradient, in_step, out_of_step = drives()


@pytest.mark.parametrize("world_size", [1, 3])
def test_in_step_is_gradient_descent_with_the_mean(world_size):
    ran = launch(in_step, world_size)
    assert ran.diagnosis is None
    weights = START.clone()
    for step in range(STEPS):
        mean = sum(gradient(weights, step * world_size + rank) for rank in range(world_size))
        weights = weights - RATE * mean / world_size
        for log in ran.values:
            assert log[step]["weights"] == pytest.approx(weights.tolist())
            assert (log[step]["worker"], log[step]["staleness"]) == (-1, 0)


@pytest.fixture(scope="module")
def out():
    ran = launch(out_of_step, 4)
    assert ran.diagnosis is None
    assert list(ran.values[1:]) == [[], [], []]
    return ran.values[0]


def test_out_of_step_each_update_is_one_workers_gradient_of_weights_so_long_ago(out):
    assert len(out) == 3 * STEPS
    weights = [START, *(torch.tensor(u["weights"], dtype=torch.float64) for u in out)]
    made = [0, 0, 0]
    for number, update in enumerate(out):
        worker, read = update["worker"], weights[number - update["staleness"]]
        batch = made[worker] * 3 + worker
        expected = weights[number] - RATE * gradient(read, batch)
        assert torch.allclose(weights[number + 1], expected)
        made[worker] += 1


def test_who_is_slow_holds_nobody_up_and_its_gradients_are_the_stalest(out):
    counts = [sum(update["worker"] == worker for update in out) for worker in range(3)]
    assert sum(counts) == 3 * STEPS
    assert counts[1] < min(counts[0], counts[2])  # else it would have STEPS, as in step
    assert all(update["staleness"] >= 0 for update in out)
    assert [update["at"] for update in out] == sorted(update["at"] for update in out)
    assert max(update["staleness"] for update in out) > 0


def test_one_worker_alone_is_never_stale():
    log = launch(out_of_step, 2).values[0]
    assert [update["staleness"] for update in log] == [0] * STEPS
