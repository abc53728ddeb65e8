"""The network's vjps, written by hand, against torch.autograd, one by one and all together."""

import pytest
import torch

from hpml.models import ResidualNetwork
from hpml.modules.m04_frameworks.lecture import network_vjps

LABELS = torch.tensor([2, 0, 1])
SHAPES = {
    "conv 2x2": [(3, 2, 7, 7), (4, 2, 2, 2)],
    "conv 3x3": [(3, 2, 7, 7), (4, 2, 3, 3)],
    "pool": [(3, 2, 7, 7)],  # an odd side: the last row and column are not used
    "norm": [(3, 2, 5, 5), (2,)],
    "gelu": [(3, 2, 5, 5)],
    "largest": [(3, 2, 5, 5)],
    "linear": [(3, 4), (5, 4)],
    "ninth": [(3, 4)],
    "cross entropy": [(3, 4)],
}


@pytest.mark.parametrize("name", SHAPES)
def test_each_vjp_is_that_of_torch(name):
    torch.manual_seed(1)
    forward, vjp = network_vjps.primitives(LABELS)[name]
    inputs = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in SHAPES[name]]
    output = forward(*inputs)
    g = torch.randn_like(output)
    expected = torch.autograd.grad(output, inputs, g)
    with torch.no_grad():
        found = vjp(g, output, *inputs)
    assert len(found) == len(inputs)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-12)


def test_every_primitive_is_compared():
    assert set(SHAPES) == set(network_vjps.primitives(LABELS))


def test_written_with_apply_it_is_the_network():
    torch.manual_seed(1)
    model = ResidualNetwork(widths=(4, 8, 8)).double()
    images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    run = network_vjps.primitives(LABELS)
    loss = network_vjps.network(lambda name, *x: run[name][0](*x), parameters, images)
    expected = torch.nn.functional.cross_entropy(model(images), LABELS)
    torch.testing.assert_close(loss, expected.detach())


def test_differences_are_relative_to_the_largest_element():
    theirs = {"a": torch.ones(3), "b": torch.tensor([2.0, 4.0])}
    assert network_vjps.differences(theirs, theirs) == {"a": 0.0, "b": 0.0}
    wrong = theirs | {"b": torch.tensor([2.0, 5.0])}
    assert network_vjps.differences(wrong, theirs) == {"a": 0.0, "b": 0.25}
