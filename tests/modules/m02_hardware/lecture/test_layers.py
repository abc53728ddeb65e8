"""Layers of a network: which there are, and what is counted. Seconds are only looked at for > 0."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hpml.models.vision_transformer import Attention
from hpml.modules.m02_hardware.lecture.layers import layers


class Residual(nn.Module):
    """A module in a module, functions beside it, a view, and a layer that writes in place."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.act = nn.ReLU(inplace=True)
        self.head = nn.Linear(4 * 64, 10)

    def forward(self, images):
        features = self.stem(images)
        features = self.act(features + F.gelu(features))
        return self.head(features.flatten(1))


@pytest.fixture
def rows():
    return {row.name: row for row in layers(Residual(), torch.randn(2, 3, 8, 8), rounds=1)}


def test_modules_and_functions_in_the_order_of_the_calls(rows):
    assert list(rows) == ["stem.0", "stem.1", "gelu", "add", "act", "head"]
    assert [row.kind for row in rows.values()][:3] == ["Conv2d", "BatchNorm2d", "gelu"]
    assert all(row.forward.seconds > 0 for row in rows.values())


def test_a_convolution_is_two_flops_for_each_multiply_add(rows):
    flops = 2 * (2 * 4 * 8 * 8) * (3 * 3 * 3)
    assert rows["stem.0"].forward.flops == flops
    # The images want no gradient: backward makes that of the weights alone.
    assert rows["stem.0"].backward.flops == flops


def test_backward_of_a_linear_layer_is_twice_forward(rows):
    head = rows["head"]
    assert head.forward.flops == 2 * 2 * 256 * 10
    assert head.backward.flops == 2 * head.forward.flops


def test_bytes_forward_are_inputs_parameters_and_output_once(rows):
    assert rows["head"].forward.nbytes == 4 * (2 * 256 + 256 * 10 + 10 + 2 * 10)
    assert rows["gelu"].forward.nbytes == 4 * 2 * (2 * 4 * 8 * 8)


def test_bytes_backward_are_what_was_saved_and_the_gradients(rows):
    size = 4 * (2 * 4 * 8 * 8)
    assert rows["gelu"].backward.nbytes == 3 * size  # output's gradient, input, its gradient
    assert rows["add"].backward.nbytes == 0  # hands the gradient on as it is


def test_what_torch_does_not_count_is_one_for_each_number(rows):
    assert rows["gelu"].forward.flops == 2 * 4 * 8 * 8
    assert rows["gelu"].forward.intensity == pytest.approx(1 / 8)


def test_a_view_computes_nothing():
    model = nn.Sequential(nn.Flatten(), nn.Linear(8, 2))
    first, _ = layers(model, torch.randn(3, 2, 4), rounds=1)
    assert (first.forward.flops, first.forward.nbytes) == (0, 0)


def test_the_model_is_as_it_was_before():
    model = Residual()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    layers(model, torch.randn(2, 3, 8, 8), rounds=1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_attention_as_one_layer_counts_its_products():
    model = nn.Sequential(Attention(8, heads=2))
    tokens = torch.randn(3, 5, 8, requires_grad=True)
    (row,) = layers(model, tokens, rounds=1, whole=Attention)
    projections = 4 * 2 * 3 * 5 * 8 * 8
    scores_and_mean = 2 * 2 * 3 * 5 * 5 * 8  # Q Kᵀ, and its softmax times V
    assert row.name == "0"
    assert row.kind == "Attention"
    assert row.forward.flops == projections + scores_and_mean
