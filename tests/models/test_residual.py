"""The network: shapes, a stem that whitens and stays, and a start that passes signals through."""

import pytest
import torch
from torch.nn import functional as F

from hpml.models import ResidualNetwork, whitening_filters
from hpml.models.residual import ConvolveNormalise


def correlated_images(count: int = 200, size: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return F.avg_pool2d(torch.randn(count, 3, size + 2, size + 2, generator=generator), 3, 1)


@pytest.mark.parametrize("size", [32, 24, 17])
def test_images_of_any_size_become_logits(size):
    logits = ResidualNetwork(widths=(8, 16), classes=7)(torch.randn(4, 3, size, size))
    assert logits.shape == (4, 7)


def test_the_stem_holds_the_filters_and_their_negatives_and_is_not_trained():
    filters = whitening_filters(correlated_images())
    network = ResidualNetwork(widths=(8,), whitening=filters)
    torch.testing.assert_close(network.stem.weight.data, torch.cat([filters, -filters]))
    network(torch.randn(2, 3, 32, 32)).sum().backward()
    assert network.stem.weight.grad is None
    assert all(p.grad is not None for p in network.parameters() if p.requires_grad)


def test_a_convolution_starts_as_the_identity_on_its_inputs():
    layer = ConvolveNormalise(4, 8)
    images = torch.randn(2, 4, 9, 9)
    torch.testing.assert_close(layer.convolution(images)[:, :4], images)


def test_a_branch_is_added_not_put_in_the_way():
    network = ResidualNetwork(widths=(8,))
    stage = network.stages[0]
    torch.nn.init.zeros_(stage.branch.convolution.weight)
    images = torch.randn(2, 24, 8, 8)
    torch.testing.assert_close(stage(images), stage.down(images))
