"""Who holds what after each step, as ranks' messages show it."""

from collections import Counter
from dataclasses import replace

import pytest

from hpml.allreduce.algorithms import schedule
from hpml.allreduce.replay import replay
from hpml.modules.m01_parallel_sgd.lecture.watched import watched
from hpml.ranks import launch
from hpml.trace.holdings import RANKS, holdings, watch

EXCHANGE = """
import torch
import torch.distributed as dist

def ring(tensor):
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = tensor.view(-1).tensor_split(size)
    right, left = (rank + 1) % size, (rank - 1) % size
"""
DEADLOCK = f"""{EXCHANGE}
    dist.send(parts[rank], right)
    dist.recv(parts[left], left)
"""
WRONG_PLACE = f"""{EXCHANGE}
    mine = parts[rank].clone()  # before another's can be there
    receive = dist.irecv(parts[rank], left)
    dist.isend(mine, right).wait()
    receive.wait()
"""
OF_NOBODY = f"""{EXCHANGE}
    tensor[:] = float("nan")
"""
MEAN = """
import torch
import torch.distributed as dist

def naive(tensor):
    total = tensor.clone()
    if dist.get_rank() == 0:
        arrived = torch.empty_like(tensor)
        for other in range(1, dist.get_world_size()):
            dist.recv(arrived, other)
            total += arrived
        total /= dist.get_world_size()
        for other in range(1, dist.get_world_size()):
            dist.send(total, other)
    else:
        dist.send(tensor, 0)
        dist.recv(total, 0)
    return total
"""


def as_counters(state):
    return [[Counter(content) for content in parts] for parts in state]


@pytest.mark.parametrize("algorithm", ["naive", "ring", "halving-doubling"])
def test_after_each_step_ranks_hold_what_the_schedule_says(algorithm):
    seen = holdings(watched(algorithm))
    plan = schedule(algorithm, RANKS)
    start = [
        [Counter({(rank, k): 1 for k in range(RANKS) if k * plan.parts // RANKS == part})
         for part in range(plan.parts)]
        for rank in range(RANKS)
    ]  # fmt: skip
    assert len(seen.steps) == len(plan.steps)
    for step in range(len(plan.steps) + 1):
        expected = replay(replace(plan, steps=plan.steps[:step]), start)
        found = as_counters(seen.states[step])
        per = RANKS // plan.parts
        for rank in range(RANKS):
            for part in range(plan.parts):
                together = sum(found[rank][part * per : (part + 1) * per], Counter())
                assert together == expected[rank][part], (step, rank, part)
    for step, transfers in zip(seen.steps, plan.steps, strict=True):
        ends = sorted((t.source, t.destination) for t in transfers)
        assert [(m.sender, m.receiver) for m in step] == ends
        assert all(m.arrived for m in step)


def test_messages_that_need_not_wait_for_each_other_are_in_one_step():
    seen = holdings(watched("tree"))
    assert [[(m.sender, m.receiver) for m in step] for step in seen.steps] == [
        [(1, 0), (3, 2)],
        [(2, 0)],
        [(0, 2), (0, 1)],
        [(2, 3)],
    ]
    whole = [{(rank, part): 1.0 for rank in range(RANKS)} for part in range(RANKS)]
    assert [list(parts) == whole for parts in seen.states[3]] == [True, True, True, False]
    assert [list(parts) == whole for parts in seen.states[4]] == [True] * RANKS


def test_a_total_that_is_made_beside_the_tensor_is_seen_when_it_is_sent():
    seen = holdings(watch(MEAN, "naive", in_place=False))
    quarter = {(rank, 2): 0.25 for rank in range(RANKS)}
    assert seen.states[1][0][2] == quarter
    assert seen.states[1][1][2] == {(1, 2): 1.0}
    assert [parts[2] for parts in seen.states[2]] == [quarter] * RANKS


def test_what_is_returned_does_not_count_where_the_tensor_is_to_be_the_sum():
    seen = holdings(watch(MEAN, "naive", in_place=True))
    assert seen.states[-1] == seen.states[0]


def test_in_a_deadlock_nothing_arrives_and_each_rank_names_its_call():
    seen = holdings(watch(DEADLOCK, "ring", in_place=True))
    assert seen.states[-1] == seen.states[0]
    (step,) = seen.steps
    assert [(m.sender, m.receiver, m.parts, m.arrived) for m in step] == [
        (rank, (rank + 1) % RANKS, (rank,), False) for rank in range(RANKS)
    ]
    assert seen.stuck[1] == "rank 1 waits in send to 2 (line 10)"
    assert len(seen.stuck) == RANKS


def test_a_part_that_arrives_in_anothers_place_is_seen_there():
    seen = holdings(watch(WRONG_PLACE, "ring", in_place=True))
    assert seen.states[-1][2][2] == {(1, 1): 1.0}
    assert seen.states[-1][2][0] == {(2, 0): 1.0}


def test_numbers_of_nobodys_are_not_guessed_at():
    seen = holdings(watch(OF_NOBODY, "ring", in_place=True))
    assert seen.steps == ()
    assert seen.states[-1][0] == (None,) * RANKS


def test_a_rank_that_left_is_named():
    leaves = f"{EXCHANGE}    import os; rank == 1 and os._exit(3)"
    seen = holdings(watch(leaves, "ring", in_place=True))
    assert "rank 1 left with exit code 3" in seen.stuck


def test_other_evidence_is_refused():
    def drive():
        return 1

    with pytest.raises(ValueError, match="not watched"):
        holdings(launch(drive, 2))
