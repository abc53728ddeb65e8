"""Bytes of a training step: the formula and what ranks had, side by side."""

import pytest
import torch
from torch import nn

from hpml.measure.training_memory import Taken
from hpml.predict.training_memory import (
    ADAM,
    activations,
    bars,
    beside_formula,
    last_peaks_in_the_update,
    line,
    predicted,
)


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


def taken(batch, peak, **kinds):
    return Taken(batch, 1_000_000, {"activations": 0, "other": 0} | kinds, peak)


def test_the_largest_batch_is_on_the_line_of_the_two_ends():
    rows = [taken(30, 90), taken(10, 30 + 0), taken(20, 75)]
    assert line(rows) == (0, 3)
    assert predicted(rows, 100) == 33
    rows = [taken(10, 150), taken(20, 200)]
    assert line(rows) == (100, 5)
    assert [predicted(rows, memory) for memory in (99, 104, 105, 250)] == [0, 0, 1, 30]
    with pytest.raises(ValueError, match="two batches"):
        line([taken(10, 150)])


def test_the_picture_has_a_panel_for_each_network_and_a_bar_for_each_batch():
    rows = [taken(10, 30_000_000, activations=20_000_000, other=10_000_000)]
    figure = bars({"one": rows, "other": rows * 2})
    assert [axes.get_title() for axes in figure.axes] == [
        "one: 1.0 M parameters",
        "other: 1.0 M parameters",
    ]
    assert [len(axes.patches) for axes in figure.axes] == [2, 4]
    (dashed,) = figure.axes[0].lines
    assert set(dashed.get_ydata()) == {16.0}  # MB: 16 bytes for each of a million


def test_the_batch_decides_of_all_networks_but_the_last():
    rows = {
        "net": [taken(1, 60, activations=10), taken(2, 100, activations=70)],
        "MLP": [taken(1, 100), taken(2, 101)],
    }
    assert activations(rows) == (True, {"net": 0.7, "MLP": 0}, {"net": 40, "MLP": 1})
    rows["net"][-1] = taken(2, 100, activations=40)
    assert not activations(rows).held


def test_the_last_networks_peak_is_in_the_optimizers_step():
    rows = {"net": [taken(1, 60, activations=10)], "MLP": [taken(1, 100, other=2_000_000)]}
    assert last_peaks_in_the_update(rows)
    rows["MLP"] = [taken(1, 100, other=2_000_000, activations=2_000_000)]
    assert not last_peaks_in_the_update(rows)
