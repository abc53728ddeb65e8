"""Megatron's pair as matrices: who has which part, and what is added up."""

from matplotlib.colors import to_hex

from hpml.modules.m07_hybrid_parallelism.lecture.tensor_picture import (
    WHOLE,
    column_then_row,
    tokens_then_columns,
)
from hpml.trace.layout import tint


def parts(axes, colour):
    """Left, bottom, width and height of each rectangle of that colour, from left to right."""
    return sorted(
        tuple(round(v, 2) for v in (*patch.get_xy(), patch.get_width(), patch.get_height()))
        for patch in axes.patches
        if hasattr(patch, "get_xy") and to_hex(patch.get_facecolor()) == colour.lower()
    )


def test_a_rank_has_columns_of_a_and_y_rows_of_b_and_a_summand_of_the_output():
    figure = column_then_row(3)
    assert [axes.get_title(loc="left").split(",")[0] for axes in figure.axes] == [
        "forward",
        "backward",
    ]
    for axes in figure.axes:
        assert len(parts(axes, WHOLE)) == 2  # what goes in and what comes out
        for rank in range(3):
            assert len(parts(axes, tint(rank))) == 4
    a, y, b, z = parts(figure.axes[0], tint(1))
    assert (a[2], y[2]) == (round(1.9 / 3, 2),) * 2
    assert b[3] == round(1.9 / 3, 2)
    assert z[2:] == (0.75, 1.0)


def test_what_is_sent_is_named_once_each_way():
    for axes in column_then_row(2).axes:
        sent = [text.get_text() for text in axes.texts if "all-" in text.get_text()]
        nothing = [text.get_text() for text in axes.texts if "nothing" in text.get_text()]
        assert len(sent) == len(nothing) == 1
        assert sent[0][0] != nothing[0][0]  # f and g


def test_with_sequence_parallelism_nothing_is_the_same_on_every_rank():
    plain, split = tokens_then_columns(2).axes
    assert len(parts(plain, WHOLE)) == 2
    assert not parts(split, WHOLE)
    norm, inside, dropout = parts(split, tint(1))
    assert norm[2:] == dropout[2:] == (0.75, 0.5)  # half of the tokens
    assert inside[2:] == (0.95, 1.0)  # half of the columns
    sent = [text.get_text().replace("-\n", "-") for text in split.texts]
    assert {"all-gather", "reduce-scatter"} <= set(sent)
