"""A step on many GPUs: what is added up."""

import pytest

from hpml.modules.m02_hardware.lecture.step_at_scale import at_scale
from hpml.predict.interconnects import INSIDE, NET
from hpml.predict.model_layers import model
from hpml.record import kept


@pytest.fixture
def run():
    return kept.read(kept.SHIPPED, "training").result["runs"][0]


def test_a_ring_of_256_pays_for_510_messages(run):
    found = at_scale(run, "NVIDIA H200")
    assert found.held
    inside, between = 2 * 32 * 7, 2 * 32  # of them, as the ring goes around each node once
    assert found.latency == pytest.approx(inside * INSIDE["nvlink4"].alpha + (between - 2) * NET,
                                          rel=0.02)  # fmt: skip
    gradients = sum(layer.parameter_bytes for layer in model("course").layers)
    assert found.bytes == pytest.approx(2 * 255 / 256 * gradients / 400e9)


def test_the_share_is_that_of_a_step_without_overlap(run):
    found = at_scale(run, "NVIDIA H200")
    assert found.compute == pytest.approx(1000 / run["images_per_second"])
    sent = found.latency + found.bytes
    assert found.share == pytest.approx(sent / (sent + found.compute))


def test_a_slow_gpu_waits_for_no_messages(run):
    assert not at_scale(run | {"images_per_second": 1000.0}, "NVIDIA T4").held
