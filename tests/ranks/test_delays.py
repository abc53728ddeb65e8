"""Waits that are injected into ranks."""

import itertools

import torch
import torch.distributed as dist

from hpml.ranks import launch
from hpml.ranks.rank.rank import _delays


def test_waits_come_from_the_seed_and_the_rank_and_have_an_end():
    waits = [
        list(itertools.islice(_delays(seed, rank, 2), 10_000))
        for seed, rank in ((1, 0), (1, 0), (1, 1), (2, 0))
    ]
    assert waits[0] == waits[1]
    assert waits[0] not in waits[2:]
    for one in waits:
        assert 0 < sum(one) <= 0.2 + 1e-9
        assert max(one) <= 0.05
        assert 0 in one
        assert len(one) < 1000


def test_the_ranks_begin_one_after_the_other_whatever_the_seed():
    for seed in range(100):
        begin = sorted(next(_delays(seed, rank, 4)) for rank in range(4))
        assert [round(60 * wait) for wait in begin] == [0, 1, 2, 3]


def test_they_come_before_the_drive_and_before_calls_and_change_no_result():
    def drive(rank):
        import time

        total = torch.tensor([rank])
        for _ in range(3):
            dist.all_reduce(total)
        return [total.item(), time.monotonic()]

    plain = launch(drive, 2, inputs=[1, 2])
    seed = next(s for s in range(100) if next(_delays(s, 0, 2)) > 0.04)
    delayed = launch(drive, 2, inputs=[1, 2], delays=seed)
    assert [v[0] for v in plain.values] == [v[0] for v in delayed.values]
    first = [rank.calls[0].issued for rank in delayed.ranks]
    assert first[0] > sum(itertools.islice(_delays(seed, 0, 2), 2))


def test_what_only_works_in_step_does_not_work_delayed():
    def drive(rank):  # looks for what the others wrote, and trusts that they have by then
        import os
        import time

        with open(f"mine{rank}", "w") as file:
            file.write("x")
        time.sleep(0.004)
        return all(os.path.exists(f"mine{other}") for other in range(4))

    outcomes = [
        all(launch(drive, 4, inputs=list(range(4)), delays=seed).values) for seed in range(4)
    ]
    assert not all(outcomes)
