import torch

from hpml.modules.m04_frameworks.lecture.operators_run import by_line, bytes_moved, recorded


def clipped(g):
    norm = (g * g).sum() ** 0.5
    if norm > 1.0:
        g = g / norm
    return g


def test_operators_come_in_order_with_the_line_that_called_them():
    ran = recorded(clipped, torch.full((4,), 5.0))
    assert [one.name for one in ran] == ["mul", "sum", "pow", "gt", "_local_scalar_dense", "div"]
    assert ran[-1].line == "g = g / norm"


def test_a_branch_that_is_not_taken_runs_nothing():
    assert "div" not in [one.name for one in recorded(clipped, torch.full((4,), 0.1))]


def test_rows_are_the_lines():
    rows = by_line(recorded(clipped, torch.full((4,), 5.0))).splitlines()
    assert [row.split("→")[0].strip() for row in rows] == [
        "norm = (g * g).sum() ** 0.5",
        "if norm > 1.0:",
        "g = g / norm",
    ]
    assert by_line([]) == ""


def test_bytes_are_those_of_the_tensors_and_one_read_twice_counts_once():
    x, y = torch.zeros(100), torch.zeros(100)
    assert bytes_moved(recorded(lambda: x + y)) == 3 * 400
    assert bytes_moved(recorded(lambda: x * x)) == 2 * 400


def test_a_view_moves_nothing_and_work_in_place_does():
    x = torch.zeros(10, 10)
    assert bytes_moved(recorded(lambda: x.t())) == 0
    assert bytes_moved(recorded(lambda: x.add_(1.0))) == 2 * 400


def test_backward_and_the_optimizer_are_counted_and_marks_for_profilers_are_not():
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step():
        (weight * weight).sum().backward()
        optimizer.step()

    names = [one.name for one in recorded(step)]
    assert names.count("mul") > 1  # forward's, and backward's
    assert "add_" in names
    assert not any("record_function" in name for name in names)
