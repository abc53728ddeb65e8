"""Laws of the sampler: every image once per epoch, however many ranks, wherever it stops."""

from itertools import chain

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler

from hpml.train.shards import epoch_order, evaluation_shard, training_shard

COUNTS, WORLDS = st.integers(1, 60), st.integers(1, 7)


@given(COUNTS, WORLDS)
def test_it_is_torchs_distributed_sampler(count, world_size):
    sampler = DistributedSampler(range(count), num_replicas=1, rank=0, seed=3)
    order = torch.tensor(list(sampler))
    for rank in range(world_size):
        theirs = DistributedSampler(range(count), num_replicas=world_size, rank=rank, seed=3)
        assert training_shard(order, rank, world_size).tolist() == list(theirs)


@given(COUNTS, WORLDS)
def test_every_image_once_up_to_the_padding_and_every_rank_as_many(count, world_size):
    order = epoch_order(count, seed=0, epoch=0)
    shards = [training_shard(order, rank, world_size).tolist() for rank in range(world_size)]
    assert len({len(shard) for shard in shards}) == 1
    seen = sorted(chain(*shards))
    assert set(seen) == set(range(count))
    assert len(seen) - count < world_size


@given(COUNTS, WORLDS, WORLDS, st.integers(1, 8), st.integers(0, 5))
def test_stopped_anywhere_and_carried_on_with_other_ranks_no_image_is_left_out(
    count, before, after, batch, steps
):
    order = epoch_order(count, seed=0, epoch=1)
    seen = []
    for rank in range(before):
        seen += training_shard(order, rank, before)[: steps * batch].tolist()
    consumed = min(steps * batch * before, count)
    rest = []
    for rank in range(after):
        rest += training_shard(order, rank, after, consumed).tolist()
    assert set(seen) == set(order[:consumed].tolist())
    assert set(rest) == set(order[consumed:].tolist())
    assert len(rest) - (count - consumed) < after


def test_a_new_order_in_each_epoch_and_for_each_seed():
    orders = {tuple(epoch_order(50, seed, epoch).tolist()) for seed in (0, 1) for epoch in (0, 1)}
    assert len(orders) == 4
    assert torch.equal(epoch_order(50, 1, 1), epoch_order(50, 1, 1))


@given(st.integers(0, 60), WORLDS)
def test_evaluation_sees_every_image_exactly_once(count, world_size):
    shards = [evaluation_shard(count, rank, world_size).tolist() for rank in range(world_size)]
    assert sorted(chain(*shards)) == list(range(count))
