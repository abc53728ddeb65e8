"""Which split is chosen, and that its parts are the module's formulas."""

from dataclasses import replace

import pytest

from hpml.predict import zero
from hpml.predict.collectives import all_reduce_bytes
from hpml.predict.which_split import Cluster, Transformer, choose, layouts, measured_flops

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
    assert tight.nbytes <= 1.5e9
    assert str(tight) != "data 8"
    assert choose(MODEL, cluster(memory=1e6)) is None


def test_a_slow_network_moves_data_ranks_into_the_node():
    assert choose(MODEL, cluster(between=5e7)).data < 8


def test_a_small_batch_moves_ranks_from_data_to_tensor():
    chosen = [choose(replace(MODEL, tokens=n), cluster()) for n in (2**16, 2**13, 2**12)]
    assert [(one.data, one.tensor) for one in chosen] == [(8, 1), (4, 2), (2, 4)]


def test_float32_sends_twice_as_much():
    half, full = (
        next(one for one in layouts(MODEL, cluster(4, number=number)) if one.tensor == 4)
        for number in (2, 4)
    )
    assert full.waits == pytest.approx(2 * half.waits)


def test_this_machine_computes():
    assert measured_flops(0.0) > 1e6
