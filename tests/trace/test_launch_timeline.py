"""A launch in figures that can be read back from the axes."""

import itertools
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_rgba

from hpml.ranks.evidence import Call, Evidence, Mark, RankEvidence, Traffic
from hpml.trace.launch_svg import launch_svg
from hpml.trace.launch_timeline import phase_bars, timeline, traffic_bars
from hpml.trace.layout import IN_FLIGHT


def call(index, operation, issued, waited, finished):
    return Call(
        index, operation, (0, 1), index, "float32", (4,), 16, "sum", 3, issued, waited, finished
    )


def evidence(*ranks, marks=()):
    return Evidence(
        len(ranks),
        tuple(
            RankEvidence(number, "returned", calls=tuple(calls), marks=tuple(marks))
            for number, calls in enumerate(ranks)
        ),
        1.0,
    )


def bars(figure):
    """Of each bar: row, from and to in the axis' unit, opacity."""
    return [
        (
            round(patch.get_y() + patch.get_height() / 2),
            round(patch.get_x(), 3),
            round(patch.get_x() + patch.get_width(), 3),
            to_rgba(patch.get_facecolor())[3],
        )
        for patch in figure.axes[0].patches
    ]


def test_a_timeline_is_the_drawing_of_a_verdict_with_hatches_by_operation():
    calls = [call(1, "all_reduce", 0.0, 0.1, 0.3), call(2, "barrier", 0.3, 0.3, 0.4)]
    lost = call(1, "all_reduce", 0.0, 0.0, None)
    one = evidence(calls, [lost], marks=(Mark("costs $5, not $6", 0.0),))
    axes = timeline(one, title="a title").axes[0]
    rects = ElementTree.fromstring(launch_svg(one, "")).iter("{http://www.w3.org/2000/svg}rect")
    names = ("x", "y", "width", "height")
    boxes = [[float(r.get(name)) for name in names] for r in rects if r.get("class") != "lane"]
    drawn = [[*patch.get_xy(), patch.get_width(), patch.get_height()] for patch in axes.patches]
    assert drawn == boxes
    two_of_the_legend, (flight, waited, barrier, *_) = axes.patches[:2], axes.patches[2:]
    assert to_rgba(flight.get_facecolor())[3] == IN_FLIGHT
    assert to_rgba(waited.get_facecolor())[3] == 1
    assert waited.get_hatch() != barrier.get_hatch()
    assert [patch.get_hatch() for patch in two_of_the_legend] == ["", barrier.get_hatch()]
    assert axes.patches[-1].get_linestyle() == "--"
    words = {text.get_text() for text in axes.texts}
    assert words >= {"a title", "rank 1", "costs $5, not $6", "time (ms)"}
    assert not any(text.get_parse_math() for text in axes.texts)
    assert [line.get_linestyle() for line in axes.lines].count(":") == 2  # a mark on each rank


def test_a_launch_without_calls_is_refused():
    with pytest.raises(ValueError, match="no rank made a call"):
        timeline(evidence([], []))


def test_phases_follow_each_other_and_the_bound_begins_with_the_last_one():
    figure = phase_bars(
        {"fast": {"compute": 0.1, "send": 0.02}, "slow": {"compute": 0.1, "send": 0.5}},
        {"fast": 0.01, "slow": 0.4},
        title="slow is slow",
    )
    assert [bar[:3] for bar in bars(figure)] == [
        (0, 0, 100),
        (0, 100, 120),
        (1, 0, 100),
        (1, 100, 600),
    ]
    bounds = [[round(x) for x in line.get_xdata()] for line in figure.axes[0].lines]
    assert bounds == [[100, 110], [100, 500]]
    # A projecting end would make the bound look longer than it is.
    assert {line.get_solid_capstyle() for line in figure.axes[0].lines} == {"butt"}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "lower bound of “send”",
        "compute",
        "send",
    ]


def test_a_bound_may_be_that_of_a_phase_in_between():
    step = {"compute": 0.1, "send": 0.5, "update": 0.2}
    figure = phase_bars({"slow": step}, {"slow": 0.4}, bounded="send")
    (line,) = figure.axes[0].lines
    assert [round(x) for x in line.get_xdata()] == [100, 500]
    assert figure.legends[0].get_texts()[0].get_text() == "lower bound of “send”"


def linked(*counts):
    """A launch in which each rank sent and received so many bytes."""
    ranks = tuple(
        RankEvidence(number, "returned", traffic=Traffic(sent, 1, received, 1))
        for number, (sent, received) in enumerate(counts)
    )
    return Evidence(len(ranks), ranks, 1.0)


def test_traffic_has_a_panel_per_row_and_two_bars_per_rank():
    figure = traffic_bars(
        {
            "server": {"2 ranks": linked((1e6, 2e6), (3e6, 4e6))},
            "ring": {"2 ranks": linked((5e6, 6e6), (7e6, 8e6)), "1 rank": linked((0, 1e6))},
        },
        own=2e6,
    )
    heights = [[round(bar.get_height(), 3) for bar in axes.patches] for axes in figure.axes]
    assert heights == [[1, 2, 3, 4], [5, 6, 7, 8, 0, 1]]
    assert [axes.get_title() for axes in figure.axes] == ["server", "ring"]
    labels = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert labels == ["2 ranks", "1 rank"]
    assert figure.axes[0].get_ylabel() == "MB over the rank's link"
    assert [line.get_ydata()[0] for axes in figure.axes for line in axes.lines] == [2, 2]


def test_sent_and_received_differ_without_colour_and_do_not_cover_each_other():
    axes = traffic_bars({"ring": {"2 ranks": linked((1, 2), (3, 4))}}).axes[0]
    edges = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(edges))
    assert len({bar.get_hatch() for bar in axes.patches}) == 2


def test_traffic_of_a_launch_without_links_is_refused_by_name():
    with pytest.raises(ValueError, match="ring, 2 ranks: there was no link"):
        traffic_bars({"ring": {"2 ranks": evidence([], [])}})
