"""What optimizers keep between steps, and decay: counted."""

import torch
from torch import nn

from hpml.frameworks import lars
from hpml.modules.m04_frameworks.lecture import decoupled_decay, nesterov_forms, optimizer_state
from hpml.modules.m04_frameworks.lecture.optimizer_state import State, count


def test_state_is_counted_in_bytes_for_what_is_trained():
    model = nn.Linear(10, 5)
    model.bias.requires_grad_(False)
    assert count("SGD", model) == State(50, {})
    assert count("momentum", model) == State(50, {"momentum_buffer": 200})
    assert count("LARS", model) == State(50, {"momentum_buffer": 200})
    adam = count("Adam", model)
    assert (adam.tensors["exp_avg"], adam.tensors["exp_avg_sq"]) == (200, 200)
    assert all(p.grad is None for p in model.parameters())


def test_counting_changes_no_parameter():
    model = nn.Linear(3, 2)
    before = [p.detach().clone() for p in model.parameters()]
    count("AdamW", model)
    assert all(map(torch.equal, before, model.parameters()))


def test_states_are_none_one_or_two_numbers_for_each_parameter():
    found = optimizer_state.counted()
    numbers = {rule: round(state.per_parameter / 4) for rule, state in found.items()}
    assert numbers == {"SGD": 0, "momentum": 1, "Nesterov": 1, "Adam": 2, "AdamW": 2, "LARS": 1}
    assert found["momentum"].nbytes == 4 * found["momentum"].parameters
    figure = optimizer_state.state_picture(found)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["parameter", "gradient", "momentum_buffer", "exp_avg", "exp_avg_sq"]


def test_adams_decay_depends_on_the_gradient_and_adamws_does_not():
    found = decoupled_decay.decays()
    assert decoupled_decay.left(found).held
    alike = {name: found["AdamW (beside it)"] for name in found}
    assert not decoupled_decay.left(alike).held
    assert len(decoupled_decay.decay_picture(found).axes) == 2


def test_pytorchs_nesterov_is_the_papers_until_the_rate_changes():
    constant, changed = ([0.01] * 30), ([0.01] * 10 + [0.002] * 20)
    assert nesterov_forms.apart(constant) < 1e-9 < 1e-3 < nesterov_forms.apart(changed)


def test_a_step_of_lars_is_a_share_of_the_weights_whatever_the_gradient():
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = lars.LARS([weight], lr=1.0, trust=0.1)
    for size in (1e-3, 1e3):
        weight.data = torch.tensor([3.0, 4.0])
        optimizer.state.clear()
        weight.grad = torch.tensor([size, 0.0])
        optimizer.step()
        assert torch.allclose(weight, torch.tensor([2.5, 4.0]))


def test_lars_with_decay_and_with_zeros():
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    weight.grad = torch.tensor([5.0, 0.0])
    lars.LARS([weight], lr=1.0, trust=0.1, weight_decay=1.0).step()
    assert torch.allclose(weight, torch.tensor([3.0, 4.0]) - 0.05 * torch.tensor([8.0, 4.0]))
    assert lars.ratio(torch.zeros(2), torch.ones(2)) == 1.0


def test_each_layer_that_learns_has_a_ratio():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    ratios = lars.layer_ratios(model, torch.randn(6, 3, 2, 2), torch.tensor([0, 1] * 3))
    assert list(ratios) == ["1", "3"]
    assert all(ratio > 0 for ratio in ratios.values())
