"""What a training takes: the kinds are those of the network, and a limit holds it."""

import pytest

from hpml.measure import training_memory
from hpml.ranks import launch


@pytest.fixture(scope="module")
def taken():
    return training_memory.measure(["residual network"], [4, 12])["residual network"]


def test_parameters_gradients_and_moments_are_16_bytes_for_each_parameter(taken):
    count = sum(p.numel() for p in training_memory.build("residual network").parameters())
    for one in taken:
        assert one.parameters == count
        assert one.by_kind["parameters"] == pytest.approx(4 * count, rel=1e-3)
        assert one.by_kind["gradients"] == pytest.approx(4 * count, rel=1e-3)
        assert one.by_kind["optimizer states"] == pytest.approx(8 * count, rel=1e-3)


def test_activations_go_by_the_batch_and_kinds_add_up_to_the_peak(taken):
    few, many = taken
    ratio = many.by_kind["activations"] / few.by_kind["activations"]
    assert ratio == pytest.approx(3, rel=0.05)
    assert [one.peak for one in taken] == [sum(one.by_kind.values()) for one in taken]


def test_every_network_learns_something_of_its_shape():
    assert {training_memory.train(name, 2, steps=1) for name in training_memory.NETWORKS} == {
        sum(p.numel() for p in training_memory.build(name).parameters())
        for name in training_memory.NETWORKS
    }


def test_what_needs_more_than_the_limit_does_not_fit(taken):
    if not launch(int, 1, process_group=False, memory=10**9).limited:
        pytest.skip("this system can limit the memory of no process")
    assert training_memory.fits("residual network", 4, 3 * taken[0].peak)
    assert not training_memory.fits("residual network", 12, taken[1].peak // 3)
