"""A stage that waits: its values and gradients, and for how long it sleeps each way."""

import torch

from hpml.models.waiting import Waiting, WaitingLayer


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


def test_layers_have_their_gradients_one_after_another_the_last_one_first(monkeypatch):
    happened = []
    monkeypatch.setattr("hpml.models.waiting.time.sleep", happened.append)
    layers = torch.nn.Sequential(WaitingLayer(1.0, 2.0, count=3), WaitingLayer(4.0, 5.0, count=7))
    for name, layer in zip("ab", layers, strict=True):
        layer.weight.register_post_accumulate_grad_hook(lambda _, name=name: happened.append(name))
    given = torch.randn(4, 5)
    made = layers(given)
    assert torch.equal(made, given)
    made.sum().backward()
    assert happened == [1.0, 4.0, 5.0, "b", 2.0, "a"]
    assert [layer.weight.grad.tolist() for layer in layers] == [[0] * 3, [0] * 7]
