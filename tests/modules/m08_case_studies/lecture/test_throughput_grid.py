"""Six factors, every setting: effects, what they depend on, and both sides of the findings."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hpml.modules.m08_case_studies.lecture import throughput_grid_findings as findings
from hpml.modules.m08_case_studies.lecture.input_rates import (
    BY_BATCH,
    FILES,
    LOADERS,
    ONE_BY_ONE,
    PACKED,
    InputRates,
)
from hpml.modules.m08_case_studies.lecture.throughput_grid import (
    DISK,
    FACTORS,
    FLOAT32,
    HALF,
    SHARED,
    Grid,
    Setting,
    against_one,
    core,
    p100,
    predict_grid,
    relative,
    training,
)
from hpml.modules.m08_case_studies.lecture.throughput_grid_picture import effects_picture, message
from hpml.predict.storage_epoch import SharedStorage

MEASURED = InputRates(
    nbytes={FILES: 20_000.0, PACKED: 150_528.0},
    loading={
        (ONE_BY_ONE, FILES): 200.0,
        (ONE_BY_ONE, PACKED): 1200.0,
        (BY_BATCH, FILES): 250.0,
        (BY_BATCH, PACKED): 1500.0,
    },
    disk={FILES: 3000.0, PACKED: 8000.0},
    cold=True,
)
GPU, CORE = p100(MEASURED), core(MEASURED, 100e9, 2.0)
FAST, SLOW = predict_grid(GPU), predict_grid(CORE)
SETTING = Setting("100gbit", "resnet50", FLOAT32, DISK, BY_BATCH, PACKED)
SHAPE = [len(levels) for levels in FACTORS.values()]


def made(**levels: list[float]) -> Grid:
    """A grid in which each factor multiplies throughput by these numbers, by its level."""
    product = np.ones(SHAPE)
    for axis, (factor, names) in enumerate(FACTORS.items()):
        shape = [1] * len(SHAPE)
        shape[axis] = len(names)
        product = product * np.reshape(levels.get(factor, [1] * len(names)), shape)
    return Grid(GPU, {1: np.ones(SHAPE), 8: product})


def test_there_is_a_value_for_each_setting():
    assert math.prod(SHAPE) == 144
    for values in FAST.throughput.values():
        assert values.shape == tuple(SHAPE)
        assert (values > 0).all()
    where = tuple(levels.index(one) for levels, one in zip(FACTORS.values(), SETTING, strict=True))
    assert FAST.throughput[64][where] == relative(GPU, SETTING, 64)


def test_an_effect_is_best_over_worst_whatever_the_other_factors_do():
    grid = made(network=[1, 3, 12], loader=[1, 5], model=[100, 1, 10])
    assert grid.effect("network", 8) == pytest.approx(12)
    assert grid.effect("loader", 8) == pytest.approx(5)
    assert grid.effect("storage", 8) == pytest.approx(1)
    assert grid.best("network", 8) == "100gbit"
    assert grid.largest(8) == ("network", pytest.approx(12))  # the model is not chosen


def test_factors_that_multiply_do_not_depend_on_each_other():
    grid = made(network=[1, 3, 12], storage=[1, 5])
    assert [*grid.effect_within("network", "storage", 8).values()] == pytest.approx([12, 12])
    assert [*grid.effect_within("storage", "network", 8).values()] == pytest.approx([5, 5, 5])


def test_an_interaction_is_found_in_either_order():
    grid = made(network=[1, 2, 4], format=[1, 3])
    grid.throughput[8][:, :, :, FACTORS["storage"].index(SHARED)] = 1.0
    assert grid.effect_within("network", "storage", 8) == pytest.approx({SHARED: 1, DISK: 4})
    one, other, effects = grid.interaction(8)
    assert (one, other) == ("network", "storage")
    assert effects[DISK] == pytest.approx(4)


def test_one_rank_sends_nothing_and_waits_for_nothing_if_its_input_is_fast():
    assert FAST.effect("network", 1) == pytest.approx(1)
    assert relative(GPU, SETTING, 1) == pytest.approx(1)
    assert relative(GPU, SETTING._replace(precision=HALF), 1) == pytest.approx(GPU.gain)


def test_sixteen_bits_halve_what_is_sent():
    assert training(GPU, SETTING, 8).gradient_share == 1.0
    assert training(GPU, SETTING._replace(precision=HALF), 8).gradient_share == 0.5


def test_a_disk_is_each_nodes_and_a_file_server_everybodys():
    own = training(GPU, SETTING, 8).input
    assert (own.each, own.shared) == (4 * 1500, math.inf)
    slow = replace(GPU, input=replace(MEASURED, disk={FILES: 30.0, PACKED: 40.0}))
    assert training(slow, SETTING, 8).input.each == 40  # its disk
    server = training(GPU, SETTING._replace(storage=SHARED), 8).input
    assert server.shared == pytest.approx(1e9 / 150_528)
    files = training(GPU, SETTING._replace(storage=SHARED, format=FILES), 8).input
    assert files.shared == pytest.approx(2000)  # opens bind, not bytes


def test_what_the_ranks_are_worth_is_at_most_their_number_times_the_gain():
    for ranks, values in FAST.throughput.items():
        assert values.max() <= GPU.gain * ranks * (1 + 1e-9)


def test_the_network_matters_on_a_few_gpus_and_storage_on_many():
    assert FAST.largest(8)[0] == "network"
    assert FAST.largest(256)[0] == "storage"
    assert SLOW.effect("network", 8) < 2


def test_models_are_compared_with_themselves():
    found = against_one(GPU)
    assert [one.model for one in found] == ["alexnet", "vgg16", "resnet50", "inception_v3"]
    assert found[1].nbytes == max(one.nbytes for one in found)
    assert all(one.speed_up > 7 for one in against_one(CORE, "100gbit"))


def test_both_sides_of_the_input():
    found = findings.input_worth(MEASURED)
    assert found == (True, pytest.approx(6.0), pytest.approx(1.25), 200.0, 1500.0)
    slow = dict(MEASURED.loading) | {(loader, PACKED): 300.0 for loader in LOADERS}
    assert not findings.input_worth(replace(MEASURED, loading=slow)).held


def test_a_gpu_does_the_work_of_many_cores():
    ratio = GPU.images_per_s["resnet50"] / CORE.images_per_s["resnet50"]
    assert ratio == pytest.approx(59, abs=0.5)


def test_both_sides_of_the_effects():
    found = findings.largest(FAST)
    assert found.held
    assert [name for name, _ in found.by_ranks.values()][1::2] == ["network", "storage"]
    assert not findings.largest(SLOW).held
    assert findings.largest(SLOW).by_ranks[8][0] == "precision"


def test_both_sides_of_the_processors():
    assert findings.hides(SLOW, FAST)
    assert not findings.hides(FAST, FAST)


def test_both_sides_of_the_interaction():
    assert findings.network_within_storage(FAST, 256).held
    assert not findings.network_within_storage(SLOW, 8).held


def test_both_sides_of_the_server():
    ten_times = SharedStorage(20_000, 1e-3, 10e9)
    found = findings.faster_server(FAST, predict_grid(replace(GPU, server=ten_times)), 256)
    assert (found.held, found.name) == (True, "network")
    found = findings.faster_server(FAST, FAST, 256)
    assert (found.held, found.name) == (False, "storage")


def test_the_loader_was_worth_most_of_the_published_pairs():
    pairs = findings.published_pairs()
    assert [round(ratio, 1) for ratio in pairs.values()] == [1.5, 2.1, 2.4]
    assert max(pairs, key=pairs.get).startswith("loader")


def test_both_sides_of_small_models():
    assert findings.in_order(against_one(GPU))
    assert [one.model for one in against_one(GPU) if one.speed_up < 1] == ["alexnet", "vgg16"]
    assert not findings.in_order(against_one(CORE))
    assert not findings.in_order(against_one(GPU)[:2])  # all are slower
    assert not findings.in_order(against_one(GPU)[::-1])


def test_alexnet_was_slower_on_two_gpus_than_on_one():
    alexnet, resnet = (findings.on_piz_daint(name) for name in ("alexnet", "resnet50"))
    assert alexnet[2] == pytest.approx(0.79, abs=0.005)
    assert alexnet[2] < 1 < resnet[2]
    assert against_one(GPU, "100gbit", 2)[0].speed_up == pytest.approx(1.95, abs=0.005)


def test_the_picture_has_a_line_for_each_factor_and_its_message():
    figure = effects_picture([FAST, SLOW])
    assert [len(axes.lines) for axes in figure.axes] == [6, 6]
    assert "times" in figure.axes[0].get_ylabel()
    assert figure.get_suptitle() == message(FAST)
    assert message(FAST).startswith("What moves throughput most: network on 8 ranks (14 times)")
