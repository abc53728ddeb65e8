"""Which layer is gathered when; and its picture."""

import sys

import cloudpickle
import pytest
import torch
from torch import nn

from hpml.modules.m07_hybrid_parallelism.lecture.gathers import (
    Event,
    events,
    gathered_meanwhile,
    times_gathered,
)
from hpml.modules.m07_hybrid_parallelism.lecture.gathers_picture import draw
from hpml.ranks import launch

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not import tests


def _step(ahead, freed):
    from torch.distributed.fsdp import fully_shard

    from hpml.modules.m07_hybrid_parallelism.lecture.gathers import (
        gather_ahead,
        watch_gathers,
        watch_layers,
    )
    from hpml.modules.m07_hybrid_parallelism.lecture.reduce_scatter import send_parts_only

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(6, 6) for _ in range(3)))
    tokens = torch.randn(4, 6, requires_grad=True)
    whole = [p.detach().clone().requires_grad_() for p in model.parameters()]
    expected = tokens
    for weight, bias in zip(whole[::2], whole[1::2], strict=True):
        expected = expected @ weight.T + bias
    gradients = torch.autograd.grad(expected.square().mean(), whole)
    watch_layers(model)
    for layer in (*model, model):
        fully_shard(layer, reshard_after_forward=freed)
    send_parts_only(model)
    watch_gathers(model)
    if ahead:
        gather_ahead(model)
    model(tokens).square().mean().backward()
    got = [p.grad.full_tensor() for p in model.parameters()]
    return max((a - b).abs().max().item() for a, b in zip(got, gradients, strict=True))


@pytest.mark.parametrize(("ahead", "freed"), [(False, True), (True, True), (False, False)])
def test_every_layer_is_seen_and_gradients_are_right(ahead, freed):
    evidence = launch(lambda: _step(ahead, freed), 2)
    assert evidence.diagnosis is None, evidence.diagnosis
    assert max(evidence.values) < 1e-6
    done = events(evidence.ranks[0])
    assert times_gathered(done) == dict.fromkeys(range(3), 2 if freed else 1)
    for what in ("forward", "backward", "scatter"):
        assert [one.layer for one in done if one.what == what] == (
            [0, 1, 2] if what == "forward" else [2, 1, 0]
        )
    first = {one.layer: one for one in reversed(done) if one.what == "gather"}
    passes = {one.layer: one for one in done if one.what == "forward"}
    assert (first[1].start < passes[0].end) == ahead


def test_a_gather_beside_another_layers_pass_counts():
    done = [
        Event("gather", 0, 0, 1),
        Event("forward", 0, 1, 3),
        Event("gather", 1, 2, 4),
        Event("forward", 1, 4, 5),
    ]
    assert gathered_meanwhile(done) == 1
    assert times_gathered(done) == {0: 1, 1: 1}


def test_the_picture_has_a_row_for_each_layer():
    done = [Event("gather", 0, 0, 1), Event("forward", 1, 1, 3)]
    (axes,) = draw({"a run": done}).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["layer 0", "layer 1"]
    assert len(axes.patches) == 2


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="a run: no layer was watched"):
        draw({"a run": []})
