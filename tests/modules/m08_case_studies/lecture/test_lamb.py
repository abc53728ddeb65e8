"""LAMB held to steps computed by hand."""

import pytest
import torch
from torch import nn

from hpml.modules.m08_case_studies.lecture.lamb import LAMB


def test_two_steps_by_hand():
    weight = nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    optimizer = LAMB([weight], lr=0.1, betas=(0.5, 0.75), eps=0.0, weight_decay=0.0)
    # t=1: m = g/2, v = g²/4; corrected both are g and g²: u = (1, -1), as long as √2. ‖w‖ is 5.
    weight.grad = torch.tensor([2.0, -1.0], dtype=torch.float64)
    optimizer.step()
    by_hand = torch.tensor([3 - 0.5 / 2**0.5, 4 + 0.5 / 2**0.5], dtype=torch.float64)
    torch.testing.assert_close(weight.detach(), by_hand)
    # t=2, g = (0, 1): m = (0.5, 0.25), over 1 - 0.25; v = (0.75, 0.4375), over 1 - 0.5625
    weight.grad = torch.tensor([0.0, 1.0], dtype=torch.float64)
    optimizer.step()
    u = torch.tensor([(2 / 3) / (12 / 7) ** 0.5, 1 / 3], dtype=torch.float64)
    by_hand = by_hand - 0.1 * by_hand.norm() / u.norm() * u
    torch.testing.assert_close(weight.detach(), by_hand)


def test_decay_is_in_the_update_whose_length_is_divided_out():
    weight = nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    weight.grad = torch.tensor([1.0, -1.0], dtype=torch.float64)
    LAMB([weight], lr=0.1, eps=0.0, weight_decay=1.0).step()
    # u = (1, -1) + (3, 4) = (4, 3): as long as the weights
    torch.testing.assert_close(weight.detach(), torch.tensor([2.6, 3.7], dtype=torch.float64))


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_a_step_is_a_share_of_the_weights_whatever_the_gradient(size: float):
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    weight.grad = size * torch.tensor([1.0, 2.0])
    LAMB([weight], lr=0.1, eps=1e-12).step()
    assert (weight.detach() - torch.tensor([3.0, 4.0])).norm() == pytest.approx(0.5)


def test_weights_of_zero_take_adams_own_step():
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([1.0, -2.0])
    LAMB([weight, nn.Parameter(torch.ones(2))], lr=0.1, eps=0.0).step()
    assert torch.allclose(weight, torch.tensor([-0.1, 0.1]))
