import importlib.util

import pytest

from hpml.modules.m04_frameworks.lecture import tensorflow_graph as graphs
from hpml.modules.m04_frameworks.lecture.graph_picture import graph_picture

tf = pytest.importorskip("tensorflow", reason="tensorflow is not installed")


def clipped(w, g):
    norm = tf.sqrt(tf.reduce_sum(g * g))
    if norm > 1.0:
        g = g / norm
    return w - 0.1 * g


def traced():
    return graphs.nodes_of(tf.function(clipped).get_concrete_function(tf.zeros(4), tf.zeros(4)))


def test_an_if_is_one_operator_with_both_branches():
    [choice] = [node for node in traced() if node.kind == "control"]
    assert choice.label.splitlines()[1:] == ["then: RealDiv", "else: nothing"]


def test_constants_stand_in_the_label_of_the_operator_and_copies_are_left_out():
    nodes = traced()
    labels = [node.label for node in nodes]
    assert "Greater 1" in labels
    assert "Mul 0.1" in labels
    assert "Sum" in labels  # its axes are not a number
    assert not any(label.startswith(("Const", "Identity")) for label in labels)
    assert nodes[-1].inputs == (next(n.name for n in nodes if n.label == "Sub"),)
    graph_picture(nodes, title="it can be drawn")


def test_autograph_makes_functions_of_the_branches():
    written = graphs.rewritten_if(tf.function(clipped))
    assert written.startswith("def if_body")
    assert "if_stmt" in written.splitlines()[-1]
    assert "def else_body" in written
    assert graphs.rewritten_if(tf.function(lambda x: x)) == ""


def test_where_it_is_missing_the_remedy_is_one_line(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert "./hpml doctor" in graphs.missing()


def test_a_number_of_python_is_traced_anew_and_a_tensor_is_not():
    graphs.tensorflow()  # errors only
    assert graphs.traces_after_each(tf.square, [1.0, 2.0, 2.0]) == [1, 2, 2]
    assert graphs.traces_after_each(tf.square, list(tf.range(3.0))) == [1, 1, 1]
    assert graphs.traces_after_each(tf.square, [tf.ones(n) for n in (4, 4, 5)]) == [1, 1, 2]
