"""Which split is chosen, and that its parts are the module's formulas."""

from dataclasses import replace

import pytest

from hpml.predict import zero
from hpml.predict.collectives import Cost, all_reduce_bytes, all_reduce_seconds
from hpml.predict.which_split import (
    Cluster,
    Transformer,
    choose,
    fitting,
    layouts,
    measured_flops,
)

MODEL = Transformer(layers=8, width=1024, tokens=2**14, sequence=1024)


def cluster(ranks=8, memory=80e9, between=50e9, **options):
    return Cluster(ranks, 4, memory, 1e14, 450e9, between, **options)


def test_every_layout_uses_all_ranks_and_splits_evenly():
    found = list(layouts(MODEL, cluster()))
    assert {(one.data, one.pipeline, one.tensor) for one in found} >= {(8, 1, 1), (1, 8, 1)}
    for one in found:
        assert one.data * one.pipeline * one.tensor == 8
        assert one.tensor <= 4
        assert 0 <= one.waits < one.seconds


def test_one_rank_only_computes():
    one = next(layouts(MODEL, cluster(1)))
    assert one.waits == 0
    assert one.seconds == pytest.approx(6 * 12 * 8 * 1024**2 * 2**14 / 1e14)
    assert str(one) == "one rank"


def test_states_are_those_of_zero():
    found = {one.stage: one for one in layouts(MODEL, cluster()) if one.data == 8}
    nothing = found[1].nbytes - zero.on_a_rank(1, MODEL.parameters, 8).total
    assert found[0].nbytes - zero.on_a_rank(0, MODEL.parameters, 8).total == pytest.approx(nothing)


def test_a_group_that_leaves_a_node_has_the_hierarchical_all_reduce():
    """And one on a node, or with one rank on each, a ring."""
    on = cluster(16, between=1e9)
    inside, link = Cost(0, 1 / 450e9), Cost(0, 1 / 1e9 / 4)  # a node's 4 ranks share it
    for ranks, apart, near in ((16, 1, 4), (8, 2, 2), (4, 1, 4), (4, 4, 1), (6, 1, 2)):
        across = Cost(0, link.beta * 4 / near) if ranks > near else None
        due = all_reduce_seconds("hierarchical", 1e9, ranks, inside, near, across)
        assert 2 * on.half_all_reduce(ranks, apart, 1e9) == pytest.approx(due), (ranks, apart)


def test_seven_billion_on_slow_links_stay_data_parallel():
    """A node's eight ranks share what they send to others. By hand: parts of 1/8 of 14.5 GB, twice
    7/8 of them at 25 Gbit/s, beside two thirds of a quarter of 3.6 s."""
    model = Transformer(36, 4096, tokens=2**21, sequence=2048)
    gpus = Cluster(64, 8, 80e9, 400e12, 450e9, 25e9 / 8)
    best = choose(model, gpus)
    assert str(best) == "data 64, ZeRO-1"
    half = 14.5e9 * (7 / 8 / 450e9 + 7 / 64 / (25e9 / 8))
    backward = 3.56 * 2 / 3 / best.micro_batches
    assert best.seconds == pytest.approx(3.56 + max(0, half - backward) + half, rel=0.01)
    assert best.seconds == pytest.approx(4.1, rel=0.02)


def test_a_reserve_is_kept():
    one = next(layouts(MODEL, cluster()))
    assert fitting([one], 1.05 * one.nbytes) == []
    assert fitting([one], 1.12 * one.nbytes) == [one]


def test_recomputing_keeps_inputs_and_computes_a_third_more():
    whole, again = (
        next(o for o in layouts(replace(MODEL, recompute=way), cluster(1)) if o.micro_batches == 4)
        for way in (False, True)
    )
    assert again.seconds == pytest.approx(whole.seconds * 4 / 3)
    tokens, states = 2**14 / 4, 16 * MODEL.parameters
    assert whole.nbytes - states == pytest.approx(34 * 1024 * tokens * 8)
    assert again.nbytes - states == pytest.approx((2 * 8 + 34) * 1024 * tokens)


def test_sequence_parallel_ranks_share_all_activations():
    def kept(shared, tensor):
        model = replace(MODEL, sequence_parallel=shared)
        one = next(o for o in layouts(model, cluster(tensor)) if o.tensor == tensor)
        return one.nbytes - 16 * MODEL.parameters / tensor

    assert kept(True, 4) == pytest.approx(kept(True, 1) / 4)
    assert kept(False, 4) == pytest.approx(kept(False, 1) * (10 + 24 / 4) / 34)


def test_what_travels_in_each_stage_of_zero():
    """A network so slow that little hides: 1/3 of a pass for forward, 2/3 for backward."""
    slow = Cluster(4, 1, 80e9, 1e14, 1e9, 1e9)
    half = 3 / 4 * 2 * MODEL.parameters / 1e9
    for m in (1, 2):
        step = 6 * MODEL.parameters * 2**14 / 4 / 1e14
        forward, backward = step / m / 3, step / m * 2 / 3
        waits = [2 * half - backward, 2 * half - backward, m * (half - backward) + half]
        waits.append(m * (3 * half - forward - backward))
        found = [o for o in layouts(MODEL, slow) if o.data == 4 and o.micro_batches == m]
        assert [one.stage for one in found] == [0, 1, 2, 3]
        assert [one.waits for one in found] == pytest.approx(waits)


def test_tensor_ranks_wait_for_four_all_reduces_in_each_layer():
    one = next(one for one in layouts(MODEL, cluster(4)) if one.tensor == 4)
    assert one.waits == pytest.approx(4 * 8 * all_reduce_bytes(4, 2 * 2**14 * 1024) / 450e9)


def test_a_pipeline_has_its_bubble():
    quick = Cluster(4, 4, 80e9, 1e12, 1e15, 1e15)
    one = next(o for o in layouts(MODEL, quick) if o.pipeline == 4 and o.micro_batches == 4)
    assert one.waits / one.seconds == pytest.approx(3 / 7, rel=1e-3)


def test_a_small_model_is_copied_and_a_large_one_split():
    assert str(choose(MODEL, cluster())) == "data 8"
    tight = choose(MODEL, cluster(memory=1.5e9))
    assert tight.nbytes <= 0.9 * 1.5e9
    assert str(tight) != "data 8"
    assert choose(MODEL, cluster(memory=1e6)) is None


def test_a_slow_network_moves_data_ranks_into_the_node():
    assert choose(MODEL, cluster(between=5e7)).data < 8


def test_a_small_batch_moves_ranks_from_data_to_tensor():
    chosen = [choose(replace(MODEL, tokens=n), cluster()) for n in (2**16, 2**12, 2**11)]
    assert [(one.data, one.tensor) for one in chosen] == [(8, 1), (4, 2), (2, 4)]


def test_float32_sends_twice_as_much():
    half, full = (
        next(one for one in layouts(MODEL, cluster(4, number=number)) if one.tensor == 4)
        for number in (2, 4)
    )
    assert full.waits == pytest.approx(2 * half.waits)


def test_this_machine_computes():
    assert measured_flops(0.0) > 1e6
