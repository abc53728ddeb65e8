"""What the picture of an answer to autodiff marks."""

import numpy as np
import pytest

from hpml.modules.m04_frameworks.checks._autodiff_picture import (
    NONE,
    RIGHT,
    WRONG,
    brief,
    mark,
    shown,
)
from hpml.modules.m04_frameworks.checks._graph_gradients import gradients


@pytest.mark.parametrize(
    ("mine", "due", "text"),
    [
        (None, None, NONE),
        (np.ones(2), None, WRONG),
        (None, np.ones(2), WRONG),
        (np.ones(2), np.ones((1, 2)), WRONG),
        (np.ones(2) + 1e-6, np.ones(2), WRONG),
        (np.ones(2) + 1e-15, np.ones(2), RIGHT),
        ("a", np.ones(2), WRONG),
    ],
)
def test_a_node_is_right_wrong_or_has_none(mine, due, text):
    assert mark(mine, due) == text


def test_the_graph_shows_sharing_broadcasting_and_both_kinds_of_none():
    graph, names = shown()
    truth = gradients(graph)
    place = {name: node for node, name in names.items()}
    assert len(truth.uses[place["h"]]) == 3
    assert truth.expected[place["b"]].shape == (1, 2)
    assert truth.expected[place["x"]] is None
    assert [
        node[0] for node, due in zip(graph["nodes"], truth.expected, strict=True) if due is None
    ] == [
        "leaf",
        "detach",
    ]


def test_a_box_has_a_shape_and_a_few_elements():
    assert brief(None) == "None"
    assert brief("a") == "str"
    assert brief(np.array(1.0)) == "[1]"
    assert brief(np.zeros((2, 3))) == "(2, 3)\n[0, 0, 0, 0, …]"
