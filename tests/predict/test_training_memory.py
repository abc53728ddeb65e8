"""Bytes of a training step: the formula and what ranks had, side by side."""

import torch
from torch import nn

from hpml.predict.training_memory import ADAM, beside_formula


def test_the_formula_is_what_adam_holds_after_a_step():
    model = nn.Linear(30, 20)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 30)).sum().backward()
    optimizer.step()
    count = sum(p.numel() for p in model.parameters())
    moments = [s[name] for s in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert ADAM["parameters"] * count == sum(p.nbytes for p in model.parameters())
    assert ADAM["gradients"] * count == sum(p.grad.nbytes for p in model.parameters())
    assert ADAM["optimizer states"] * count == sum(moment.nbytes for moment in moments)


def test_each_rank_has_a_column_beside_the_formula():
    one = {"parameters": 10**7, "gradients": 0, "optimizer states": 2 * 10**7, "activations": 10**6}
    lines = beside_formula([one, dict.fromkeys(one, 0)], parameters=2_500_000).splitlines()
    assert lines[0].split() == "most MB at one time formula rank 0 rank 1".split()
    assert lines[1].split() == ["parameters", "10.0", "10.0", "0.0"]
    assert lines[3].split() == ["optimizer", "states", "20.0", "20.0", "0.0"]
    assert lines[4].split() == ["activations", "–", "1.0", "0.0"]
