"""Timelines: each call where it was, in figures that can be read back from the axes."""

import itertools

import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from hpml.ranks.evidence import Call, Evidence, Mark, RankEvidence, Traffic
from hpml.trace.launch_timeline import IN_FLIGHT, phase_bars, timeline, traffic_bars


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
    """Of each bar: rank, from and to in the axis' unit, opacity."""
    return [
        (
            round(patch.get_y() + patch.get_height() / 2),
            round(patch.get_x(), 3),
            round(patch.get_x() + patch.get_width(), 3),
            to_rgba(patch.get_facecolor())[3],
        )
        for patch in figure.axes[0].patches
    ]


def test_a_bar_goes_from_issue_to_completion_and_is_full_where_its_rank_waits():
    figure = timeline(evidence([call(1, "all_reduce", 5.0, 5.1, 5.3)]))
    assert bars(figure) == [(0, 0, 100, IN_FLIGHT), (0, 100, 300, 1)]
    assert figure.axes[0].get_xlabel() == "time (ms)"


def test_a_call_that_nobody_waits_for_is_pale_throughout():
    figure = timeline(evidence([call(1, "all_reduce", 0.0, None, 0.2)]))
    assert bars(figure) == [(0, 0, 200, IN_FLIGHT)]


def test_each_rank_has_a_row_and_all_share_one_clock():
    figure = timeline(
        evidence([call(1, "barrier", 1.0, 1.0, 1.5)], [call(1, "barrier", 1.4, 1.4, 1.5)])
    )
    assert bars(figure) == [(0, 0, 500, 1), (1, 400, 500, 1)]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["rank 0", "rank 1"]


def test_calls_in_flight_at_once_do_not_cover_each_other():
    overlapping = [call(1, "all_reduce", 0, 0, 0.4), call(2, "all_reduce", 0.1, 0.1, 0.5)]
    later = call(3, "all_reduce", 0.45, 0.45, 0.6)
    first, second, third = timeline(evidence([*overlapping, later])).axes[0].patches
    assert first.get_y() + first.get_height() <= second.get_y()
    assert third.get_y() == first.get_y()


def test_a_call_that_never_came_back_reaches_the_edge_and_is_labelled():
    lost = call(1, "all_reduce", 0.5, 0.5, None)
    figure = timeline(evidence([lost], [call(1, "barrier", 0.0, 0.0, 1.0)]))
    axes = figure.axes[0]
    assert bars(figure)[0][2] == pytest.approx(axes.get_xlim()[1], abs=1e-3)
    assert [text.get_text() for text in axes.texts] == ["all_reduce: never came back"]
    assert axes.patches[0].get_linestyle() == "--"


def test_marks_are_lines_in_every_row_and_named_once():
    marks = (Mark("begin", 0.1), Mark("end", 0.4))
    row = [call(1, "all_reduce", 0.2, 0.2, 0.3)]
    axes = timeline(evidence(row, row, marks=marks)).axes[0]
    lines = [line for group in axes.collections for line in group.get_segments()]
    assert sorted(round(line[0][0]) for line in lines) == [0, 0, 300, 300]
    assert [text.get_text() for text in axes.texts] == ["begin", "end"]


def test_long_launches_are_drawn_in_seconds():
    figure = timeline(evidence([call(1, "all_reduce", 0.0, 0.0, 30.0)]))
    assert figure.axes[0].get_xlabel() == "time (s)"
    assert bars(figure) == [(0, 0, 30, 1)]


def test_operations_differ_by_colour_and_by_hatch():
    names = ("broadcast", "all_reduce", "barrier")
    calls = [call(n, name, n, n, n + 0.5) for n, name in enumerate(names)]
    figure = timeline(evidence(calls))
    patches = figure.axes[0].patches
    assert len({patch.get_facecolor() for patch in patches}) == 3
    assert len({patch.get_hatch() for patch in patches}) == 3
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == list(names)


def test_the_legend_shows_each_operation_in_flight_and_waited_for_in_its_own_colour():
    figure = timeline(evidence([call(1, "all_reduce", 0, 1, 2), call(2, "barrier", 2, 2, 3)]))
    legend = figure.legends[0]
    looks = [to_rgba(patch.get_facecolor()) for patch in legend.findobj(Rectangle)]
    bars = [to_rgba(patch.get_facecolor()) for patch in figure.axes[0].patches]
    assert [look[3] for look in looks] == [IN_FLIGHT, 1, IN_FLIGHT, 1]
    assert [look[:3] for look in looks] == [bars[0][:3]] * 2 + [bars[-1][:3]] * 2
    assert legend.get_title().get_text() == "pale: call in flight\nfull: its rank waits"


def test_making_the_group_is_not_drawn():
    made = call(1, "init_process_group", 0.0, 0.0, 9.0)
    figure = timeline(evidence([made, call(2, "barrier", 9.0, 9.0, 9.5)]))
    assert bars(figure) == [(0, 0, 500, 1)]


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
