"""PyTorch beside ONNX Runtime, forward: what is timed, and the gains."""

import pytest
import torch

from hpml.models import ResidualNetwork
from hpml.modules.m04_frameworks.lecture import onnx_speed
from hpml.modules.m04_frameworks.lecture.onnx_speed import CHANNELS_LAST, EAGER, RUNTIME, Speeds


def speeds(few=(4.0, 3.0, 1.0), many=(40.0, 20.0, 18.0)) -> Speeds:
    """Milliseconds of each way with 1 and with 64 images, the same in two rounds."""
    ways = (EAGER, CHANNELS_LAST, RUNTIME)
    taken = {
        batch: {way: [ms, ms] for way, ms in zip(ways, values, strict=True)}
        for batch, values in ((1, few), (64, many))
    }
    return Speeds(taken, taken)


def test_a_gain_is_of_the_rounds():
    taken = {1: {EAGER: [4.0, 8.0, 6.0], RUNTIME: [1.0, 4.0, 2.0]}}
    gain = Speeds(taken, taken).gain(1, RUNTIME)
    assert (gain.factor, gain.least, gain.most) == (3.0, 2.0, 4.0)


def test_gains_are_beside_both_baselines():
    held, *gains = speeds().gains
    assert (held, [gain.factor for gain in gains]) == (True, [4.0, 3.0, 2.0, 20 / 18])


@pytest.mark.parametrize(
    "taken",
    [
        {"few": (4.0, 3.0, 4.0)},  # not faster
        {"many": (40.0, 39.0, 18.0)},  # the layout gains nothing
        {"few": (4.0, 3.0, 2.0), "many": (40.0, 20.0, 10.0)},  # the gain grows with the batch
    ],
)
def test_what_was_not_seen_is_not_held(taken):
    assert not speeds(**taken).gains.held


def test_the_table_has_a_line_for_each_way_and_batch():
    lines = str(speeds()).splitlines()
    assert len(lines) == 1 + 2 * 3
    assert lines[3].split()[:4] == ["1", "image", "ONNX", "Runtime"]


def test_each_way_gets_the_same_images_in_turn():
    given = []

    class Running:
        def run(self, _, inputs):
            given.append(inputs["images"])

    seen = []
    network = ResidualNetwork(widths=(8,)).eval()
    network.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    found = onnx_speed.compare(network, Running(), batches=(2,), rounds=2)
    assert {way: len(taken) for way, taken in found.processor[2].items()} == {
        EAGER: 2,
        CHANNELS_LAST: 2,
        RUNTIME: 2,
    }
    assert torch.equal(seen[0], torch.from_numpy(given[0]))
    assert torch.get_num_threads() >= 1


def test_the_picture_has_a_bar_for_each_way_and_a_panel_for_each_batch():
    figure = onnx_speed.speeds_picture(speeds(), "A title")
    assert [panel.get_title() for panel in figure.axes] == [
        "batches of 1 image",
        "batches of 64 images",
    ]
    assert [len(panel.patches) for panel in figure.axes] == [3, 3]
    assert "per second" in figure.axes[0].get_xlabel()
