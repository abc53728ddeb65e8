"""Layers by two engines: the same rows, side by side; what is concluded from their sums."""

import pytest
import torch
from torch import nn

from hpml.models import ResidualNetwork
from hpml.modules.m02_hardware.lecture import engines
from hpml.modules.m02_hardware.lecture.engines import ENGINES
from hpml.modules.m02_hardware.lecture.layers import Layer, Pass


def layer(name, kind, forward, backward):
    return Layer(name, kind, Pass(forward, 1, 1), Pass(backward, 1, 1))


def made_up(off=(0.1, 0.2), on=(0.05, 0.1), last=(0.05, 0.05), pool=(0.01, 0.01, 0.001)):
    return {
        name: [layer("convolution", "Conv2d", *times), layer("pool", "max_pool2d", pooled, 0.0)]
        for name, times, pooled in zip(ENGINES, (off, on, last), pool, strict=True)
    }


@pytest.fixture(scope="module")
def measured():
    model = ResidualNetwork((8, 8, 8))
    found = engines.compare(model, torch.randn(2, 3, 32, 32), rounds=1)
    return model, found


def test_every_engine_has_the_same_layers(measured):
    _, found = measured
    names = [[row.name for row in rows] for rows in found.values()]
    assert list(found) == list(ENGINES)
    assert names[0] == names[1] == names[2]
    assert "stages.2.branch.convolution" in names[0]


def test_the_model_is_contiguous_again(measured):
    model, _ = measured
    assert all(parameter.is_contiguous() for parameter in model.parameters())


def test_onednn_is_off_inside_and_as_before_afterwards():
    with engines.onednn(False):
        assert not torch.backends.mkldnn.enabled
    assert torch.backends.mkldnn.enabled


def test_onednn_is_off_while_layers_run_and_on_for_the_others(monkeypatch):
    seen = []

    class Layers(nn.Conv2d):
        def forward(self, images):
            seen.append((torch.backends.mkldnn.enabled, images.is_contiguous()))
            return super().forward(images)

    engines.compare(nn.Sequential(Layers(3, 4, 3)), torch.randn(2, 3, 8, 8), rounds=1)
    assert list(dict.fromkeys(seen)) == [(False, True), (True, True), (True, False)]


def test_the_table_has_a_row_for_each_layer_and_the_sums():
    lines = engines.table(made_up()).splitlines()
    assert len(lines) == 2 + 2 + 1
    assert lines[-1].split() == [
        "all",
        "layers",
        "110.00",
        "200.00",
        "60.00",
        "100.00",
        "51.00",
        "50.00",
    ]


def test_milliseconds_are_added_over_all_layers_and_by_kind():
    held, whole, of = engines.gains(made_up())
    assert held
    assert whole == pytest.approx([310, 160, 101])
    assert of["convolution"] == pytest.approx([300, 150, 100])
    assert of["pooling"] == pytest.approx([10, 10, 1])


@pytest.mark.parametrize(
    "change", [{"on": (0.1, 0.2)}, {"last": (0.1, 0.2)}, {"pool": (0.01, 0.01, 0.01)}]
)
def test_without_a_clear_gain_it_does_not_hold(change):
    assert not engines.gains(made_up(**change)).held


def test_each_pass_has_its_quickest_round():
    fast = [layer("x", "Conv2d", 1.0, 4.0)], [layer("x", "Conv2d", 3.0, 2.0)]
    (row,) = engines._quicker(*fast)
    assert (row.forward.seconds, row.backward.seconds) == (1.0, 2.0)


def test_kinds():
    kinds = [
        engines.kind(layer("x", kind, 0, 0)) for kind in ("Conv2d", "BatchNorm2d", "amax", "add")
    ]
    assert kinds == ["convolution", "normalisation", "pooling", "the rest"]


def test_the_picture_stacks_all_milliseconds():
    (axes,) = engines.picture(made_up()).axes
    first = [bar.get_width() for bars in axes.containers for bar in bars[:1]]
    assert sum(first) == pytest.approx(310)
    title = axes.get_title("left")
    assert "1.9 times as fast with the library, 3.1 times with its layout too" in title
