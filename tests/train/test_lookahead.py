"""Slow weights follow the fast ones, and call them back; how often hangs on no number of steps."""

import pytest
import torch
from torch import nn

from hpml.train.lookahead import KEEP, TIMES, Lookahead


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def walk(steps: int, towards: float = 1.0) -> torch.Tensor:
    """The weights after `steps` steps that each set them to `towards`; they start at 0."""
    fast = network()
    nn.init.zeros_(fast[0].weight)
    lookahead = Lookahead(fast)
    for step in range(steps):
        fast[0].weight.data.fill_(towards)
        lookahead.step(step / steps, (step + 1) / steps)
    torch.testing.assert_close(fast[0].weight, lookahead.slow["0.weight"])
    return fast[0].weight.data.mean()


def test_it_follows_at_once_early_and_slowly_late():
    fast = network()
    lookahead = Lookahead(fast)
    start = fast[0].weight.data.clone()
    fast[0].weight.data += 1
    lookahead.step(0, 1 / TIMES)
    torch.testing.assert_close(fast[0].weight.data, start + 1, atol=1e-5, rtol=0)
    fast[0].weight.data += 1
    lookahead.step(1 - 1 / TIMES, 1)
    torch.testing.assert_close(fast[0].weight.data, start + 2 - KEEP, atol=1e-5, rtol=0)


def test_running_statistics_are_averaged_too():
    fast = network()
    lookahead = Lookahead(fast)
    fast[1].running_mean += 1
    lookahead.step(0.999, 1)
    torch.testing.assert_close(fast[1].running_mean, torch.full((2,), 1 - KEEP))


def test_between_two_times_the_fast_weights_stay_as_they_are():
    fast = network()
    lookahead = Lookahead(fast)
    fast[0].weight.data += 1
    before = fast[0].weight.data.clone()
    lookahead.step(0.501, 0.509)
    assert torch.equal(fast[0].weight.data, before)
    assert not torch.equal(lookahead.slow["0.weight"], before)


@pytest.mark.parametrize("steps", [1, 7, 100, 333, 2400])
def test_a_long_walk_and_a_short_one_end_near_the_goal(steps):
    assert walk(steps) == pytest.approx(1, abs=0.02)
