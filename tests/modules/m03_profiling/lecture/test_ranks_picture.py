from hpml.modules.m03_profiling.lecture.critical_path import critical_path
from hpml.modules.m03_profiling.lecture.ranks_picture import (
    buckets,
    communication_bars,
    hidden_bars,
    side_by_side,
)
from hpml.trace.profiler.communication import communication

from ....trace.played_ranks import play


def late():
    return play([[0.01] * 3, [0.01] * 3, [0.05] * 3])


def words(figure):
    texts = [text.get_text() for axes in figure.axes for text in axes.texts]
    return texts + [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_each_rank_is_a_row_and_what_is_seen_is_in_the_legend():
    figure = side_by_side(late(), [4], title="Rank 2 loads")
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0", "rank 1", "rank 2"]
    assert "waiting for the last rank" in words(figure)
    assert "transforms" not in words(figure)
    assert "critical path" not in words(figure)


def test_the_critical_path_is_a_line_from_row_to_row():
    traces = late()
    figure = side_by_side(traces, [4], path=critical_path(traces, 4))
    assert "critical path" in words(figure)
    (axes,) = figure.axes
    rows = set(axes.lines[0].get_ydata())
    assert 2 in rows
    assert len(rows) == 2  # those who wait are on it only where the step ends


def test_several_steps_are_named():
    assert [t for t in words(side_by_side(late())) if t.startswith(" step")] == [
        " step 3",
        " step 4",
        " step 5",
    ]


def test_a_bar_is_as_long_as_the_communication_of_a_step():
    traces = late()
    found = communication(traces)
    figure = communication_bars(found)
    for one in found:
        assert f" {1e3 * (one.hidden + one.exposed) / 3:.0f} ms" in words(figure)
    assert len(hidden_bars({"a": found, "b": found}).axes[0].get_yticklabels()) == 2


def test_each_bucket_is_a_row_below_its_program():
    figure = buckets(
        {"two buckets": late(), "one": play([[0.01]] * 2, backward=[0.01], transfer=[0.01])}
    )
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "two buckets: 2 all-reduces",
        "one: 1 all-reduce",
    ]
