"""A stage that waits: its values and gradients, and for how long it sleeps each way."""

import torch

from hpml.models.waiting import Waiting


def test_it_waits_its_seconds_each_way_and_passes_values_and_gradients_on(monkeypatch):
    slept = []
    monkeypatch.setattr("hpml.models.waiting.time.sleep", slept.append)
    stage = Waiting(forward=2.0, backward=3.0)
    given = torch.randn(4, 5, requires_grad=True)
    made = stage(given)
    assert torch.equal(made, given)
    assert slept == [2.0]
    made.backward(torch.full((4, 5), 7.0))
    assert slept == [2.0, 3.0]
    assert torch.equal(given.grad, torch.full((4, 5), 7.0))
    assert torch.isclose(stage.weight.grad, 7 * given.detach().sum(), rtol=1e-4, atol=1e-4)
