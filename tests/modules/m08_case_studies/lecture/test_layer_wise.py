"""Layer by layer: what stays exposed by hand, and both sides of what is held to it."""

import pytest

from hpml.modules.m08_case_studies.lecture.layer_wise import (
    WAYS,
    efficiencies,
    exposed,
    hidden,
    last_layers,
    on_a_cluster,
    table,
)
from hpml.predict import interconnects
from hpml.predict.model_layers import model

WHOLE, SINGLE = WAYS
# Two ranks, 100 Mbit/s: 125,000 gradients are 0.5 MB, and take 40 ms.
LARGE, SMALL = 125_000, 1_250


def by_network():
    networks = {"last": [LARGE, SMALL], "even": [LARGE // 2] * 2, "first": [SMALL, LARGE]}
    return {
        (name, way): seconds
        for name, counts in networks.items()
        for way, seconds in exposed(counts, 0.050, 2, 100e6).items()
    }


def test_only_the_layer_that_is_ready_last_cannot_hide():
    found = by_network()
    for name in ("last", "even", "first"):
        assert found[name, WHOLE] == pytest.approx(0.0404, rel=0.02)
    assert found["last", SINGLE] == pytest.approx(0.0004)
    assert found["even", SINGLE] == pytest.approx(0.020)
    assert found["first", SINGLE] == pytest.approx(0.040)


def test_messages_queue_where_the_network_is_slower_than_backward():
    assert exposed([LARGE] * 3, 0.010, 2, 100e6)[SINGLE] == pytest.approx(3 * 0.040 - 0.020)


def test_where_the_bytes_sit_decides():
    predicted = by_network()
    measured = predicted | {("even", SINGLE): 0.010}
    found = hidden(measured, predicted)
    assert found.held
    assert [*found.measured.values()] == pytest.approx([0.99, 0.75, 0.01], abs=0.005)
    assert [*found.predicted.values()] == pytest.approx([0.99, 0.5, 0.01], abs=0.005)
    assert not hidden(measured | {("even", SINGLE): 0.035}, predicted).held
    assert not hidden(measured | {("first", SINGLE): 0.001}, predicted).held


def test_vgg_has_its_bytes_in_the_last_layers_and_resnet_has_not():
    found = last_layers(model("vgg16"), 3)
    assert found.held
    assert found.of_bytes == pytest.approx(0.89, abs=0.005)
    assert not last_layers(model("resnet50"), 3).held


def on_256(between="25gbit"):
    costs = interconnects.INSIDE["nvlink1"], interconnects.cost_of(between)
    network = interconnects.nodes(4, *costs)
    return on_a_cluster(model("resnet50"), 219, batch=64, network=network, ranks=256)


def test_many_messages_need_few_steps():
    found = efficiencies(on_256())
    assert found.held
    assert found.flat[WHOLE] == pytest.approx(0.81, abs=0.005)


def test_on_a_fast_network_it_is_not_so():
    assert not efficiencies(on_256("400gbit")).held


def test_the_table_has_all_six():
    lines = table(on_256()).splitlines()
    assert len(lines) == 7
    assert lines[-1].split()[:2] == ["hierarchical", "buckets"]
