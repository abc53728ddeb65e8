import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.modules.m04_frameworks.lecture.graph_layout import Node, depths, layout
from hpml.modules.m04_frameworks.lecture.graph_picture import KINDS, graph_picture, graphs_picture

LAYER = [
    Node("x", "x\n[4, 8]", (), "input"),
    Node("w", "w", (), "parameter"),
    Node("matmul", "matmul", ("x", "w")),
    Node("b", "b", (), "parameter"),
    Node("add", "add", ("matmul", "b")),
    Node("square", "mul", ("add", "add")),
    Node("out", "output", ("square", "x"), "output"),
]


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 12))
    return [
        Node(f"n{k}", f"n{k}", tuple(draw(st.lists(st.sampled_from(before), max_size=3))))
        if (before := [f"n{j}" for j in range(k)])
        else Node("n0", "n0")
        for k in range(count)
    ]


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_each_node_is_below_its_inputs_and_no_boxes_touch(nodes):
    widths = {node.name: 1.0 + len(node.inputs) for node in nodes}
    found = layout(nodes, widths, gap=0.5)
    for node in nodes:
        assert all(found.places[n][1] < found.places[node.name][1] for n in node.inputs)
    for a, b in itertools.combinations(nodes, 2):
        (ax, ay), (bx, by) = found.places[a.name], found.places[b.name]
        if ay == by:
            apart = (widths[a.name] + widths[b.name]) / 2 + 0.5
            assert abs(ax - bx) >= apart - 1e-9
    for (source, target), way in found.bends.items():
        layers = [found.places[source][1], *(y for _, y in way), found.places[target][1]]
        assert layers == list(range(layers[0], layers[-1] + 1))


def test_an_input_stands_just_above_the_first_that_takes_it():
    depth = depths(LAYER)
    assert depth["b"] == depth["add"] - 1 == depth["matmul"]
    assert depth["x"] == depth["w"] == 0


def test_a_ladder_needs_no_crossings():
    names = "abcd"
    nodes = [Node(n, n) for n in names]
    nodes += [Node(f"{n}1", n, (n,)) for n in reversed(names)]
    found = layout(nodes, {}, gap=1.0)
    tops = sorted(names, key=lambda n: found.places[n][0])
    assert tops == sorted(names, key=lambda n: found.places[f"{n}1"][0])


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([Node("a", "a", ("b",)), Node("b", "b", ("a",))], "depends on itself"),
        ([Node("a", "a", ("b",))], "b is an input, but no node"),
        ([Node("a", "a"), Node("a", "a")], "same name"),
        ([], "nothing to draw"),
    ],
)
def test_what_is_no_graph_is_refused(nodes, why):
    with pytest.raises(ValueError, match=why):
        graph_picture(nodes, title="")


def test_the_picture_has_each_label_each_edge_and_the_mark():
    figure = graph_picture(
        LAYER, title="one layer", marks={"add": "kept"}, edges={("matmul", "add"): "1"}
    )
    [axes] = figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert {node.label for node in LAYER} | {"1"} <= set(texts)
    arrows = [p for p in axes.patches if type(p).__name__ == "FancyArrowPatch"]
    assert len(arrows) == sum(len(set(node.inputs)) for node in LAYER)
    [legend] = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == [KINDS[k][0] for k in ("input", "parameter", "op", "output")] + ["kept"]


def test_two_graphs_may_use_the_same_names():
    other = [Node("x", "a much longer label", (), "input"), Node("out", "y", ("x",), "output")]
    figure = graphs_picture({"first": LAYER, "second": other}, title="two")
    assert [axes.get_title() for axes in figure.axes] == ["first", "second"]


def test_a_fifth_mark_is_refused():
    marks = {node.name: node.name for node in LAYER}
    with pytest.raises(ValueError, match="at most 4"):
        graph_picture(LAYER, title="", marks=marks)


def test_a_chain_hangs_straight_below_the_node_it_comes_from():
    nodes = [Node("w", "w"), Node("g", "g"), Node("mul", "mul", ("g",))]
    nodes += [Node("sub", "sub", ("w", "mul")), Node("output", "output", ("sub",))]
    places = layout(nodes, {"w": 1.0, "g": 1.0, "mul": 2.0}, gap=0.5).places
    assert abs(places["output"][0] - places["sub"][0]) < 0.01
    assert all(abs(x) < 10 for x, _ in places.values())  # nothing drifts away
