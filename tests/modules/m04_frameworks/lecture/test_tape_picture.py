"""A tape is drawn with its values, adjoints, and what each use adds."""

from types import SimpleNamespace

import matplotlib.pyplot as plt

from hpml.modules.m04_frameworks.lecture.tape_picture import draw

PRIMITIVES = {"mul": (None, lambda g, out, a, b: (g * b, g * a))}


def test_each_edge_has_what_it_adds_to_the_adjoint():
    a, b = SimpleNamespace(data=2.0, adjoint=12.0), SimpleNamespace(data=3.0, adjoint=4.0)
    square = SimpleNamespace(data=4.0, adjoint=3.0)
    result = SimpleNamespace(data=12.0, adjoint=1.0)
    tape = [(square, "mul", (a, a)), (result, "mul", (square, b))]
    figure = draw(tape, {"a": a, "loss": result}, PRIMITIVES, title="a²b")
    texts = [text.get_text() for text in figure.axes[0].texts]
    plt.close(figure)
    assert {"a\nvalue   2\nadjoint 12", "value   3\nadjoint 4", "+6 +6", "+3", "+4"} < set(texts)
    assert "mul\nvalue   4\nadjoint 3" in texts
    assert "loss = mul\nvalue   12\nadjoint 1" in texts
