import pytest
import torch

from hpml.modules.m04_frameworks.lecture.captured_graphs import captured, captures_after_each


def branch(w, g):
    norm = (g * g).sum() ** 0.5
    if norm > 1.0:
        g = g / norm
    return w - 0.1 * g


def where(w, g):
    norm = (g * g).sum() ** 0.5
    return w - 0.1 * torch.where(norm > 1.0, g / norm, g)


W = torch.zeros(4)
SHORT, LONG = torch.full((4,), 0.1), torch.full((4,), 5.0)


def labels(graph):
    return [node.label for node in graph]


def test_an_if_on_a_value_breaks_the_graph_and_each_branch_has_its_own():
    first, below, above = captured(branch, (W, SHORT), (W, LONG))
    assert labels(first) == ["g\n[4]", "mul", "sum", "pow 0.5", "gt 1", "output"]
    assert "truediv" not in labels(below)
    assert "truediv" in labels(above)


def test_a_branch_that_nobody_took_has_no_graph():
    assert len(captured(branch, (W, SHORT), (W, SHORT))) == 2


def test_a_choice_by_an_operator_is_one_graph_with_all_its_edges():
    [graph] = captured(where, (W, SHORT), (W, LONG))
    assert [node.kind for node in graph].count("input") == 2
    assert graph[-1].kind == "output"
    names = {node.name for node in graph}
    assert all(set(node.inputs) <= names for node in graph)


@pytest.mark.parametrize(("dynamic", "counts"), [(None, [1, 1, 2, 2]), (False, [1, 1, 2, 3])])
def test_a_new_shape_is_captured_anew(dynamic, counts):
    calls = [(torch.zeros(n), torch.ones(n)) for n in (4, 4, 5, 6)]
    assert captures_after_each(where, calls, dynamic=dynamic) == counts
