"""Space-time diagrams: each message an arrow that can be read back from the axes."""

import pytest

from hpml.trace.space_time import format_bytes, space_time

from .test_messages import call, evidence


def one_message(begin=2.0, end=2.25, nbytes=8):
    return evidence(
        [call("send", 1, 1, begin, begin + 0.1, nbytes)],
        [call("recv", 1, 0, begin, end)],
    )


def arrows(axes):
    """Of each arrow: where it begins and where it ends, as (time, rank)."""
    found = [text for text in axes.texts if hasattr(text, "arrow_patch") and text.arrow_patch]
    return [tuple((round(x, 3), round(y, 3)) for x, y in (text.xyann, text.xy)) for text in found]


def test_an_arrow_goes_from_the_senders_row_to_the_receivers_and_time_begins_with_it():
    axes = space_time({"one": one_message()}).axes[0]
    assert arrows(axes) == [((0, 0), (250, 1))]
    assert axes.get_xlabel() == "time since the first message (ms)"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["rank 0", "rank 1"]


def test_rank_0_is_above():
    bottom, top = space_time({"one": one_message()}).axes[0].get_ylim()
    assert bottom > top


def test_panels_share_one_time_axis_and_name_the_bytes_sent():
    figure = space_time({"short": one_message(end=2.1), "long": one_message(end=5.0)})
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "short: 1 message, 8 B",
        "long: 1 message, 8 B",
    ]
    assert arrows(figure.axes[0]) == [((0, 0), (0.1, 1))]
    assert arrows(figure.axes[1]) == [((0, 0), (3, 1))]
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    assert figure.axes[-1].get_xlabel() == "time since the first message (s)"


def test_more_bytes_are_a_thicker_arrow():
    figure = space_time({"small": one_message(nbytes=100), "large": one_message(nbytes=10**6)})
    small, large = (axes.texts[0].arrow_patch.get_linewidth() for axes in figure.axes)
    assert small < large
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["100 B", "1 MB"]


def test_senders_differ_without_colour():
    both = evidence(
        [call("send", 1, 1, 0.0, 0.1), call("recv", 1, 1, 0.0, 0.3)],
        [call("recv", 1, 0, 0.0, 0.2), call("send", 1, 0, 0.2, 0.3)],
    )
    patches = [text.arrow_patch for text in space_time({"both": both}).axes[0].texts]
    assert len({patch.get_linestyle() for patch in patches}) == 2
    assert len({patch.get_edgecolor() for patch in patches}) == 2


def test_what_nobody_received_is_a_cross_and_no_arrow():
    axes = space_time({"lost": evidence([call("send", 1, 1, 1.0, None)], [])}).axes[0]
    assert arrows(axes) == []
    assert [(list(line.get_xdata()), line.get_marker()) for line in axes.lines] == [([0], "x")]


def test_a_launch_without_messages_is_refused_by_name():
    with pytest.raises(ValueError, match="quiet: no rank sent a message"):
        space_time({"one": one_message(), "quiet": evidence([], [])})


def test_bytes_are_formatted_as_people_write_them():
    formatted = [format_bytes(count) for count in (8, 999, 1000, 1_500_000, 2e9)]
    assert formatted == ["8 B", "999 B", "1 kB", "1.5 MB", "2 GB"]


def test_until_cuts_what_was_sent_later_and_what_is_still_under_way_has_no_head():
    calls = [call("send", 1, 1, 0.0, 0.1), call("send", 2, 1, 0.04, 0.2)]
    got = [call("recv", 1, 0, 0.0, 0.02), call("recv", 2, 0, 0.02, 0.06)]
    late = [call("send", 3, 1, 0.07, 0.1)], [call("recv", 3, 0, 0.06, 0.08)]
    both = evidence(calls + late[0], got + late[1])
    axes = space_time({"two": both}, until=0.05).axes[0]
    assert arrows(axes) == [((0, 0), (20, 1)), ((40, 0), (50, 0.5))]
    assert axes.get_title(loc="left") == "two: 2 messages, 16 B"
    heads = [text.arrow_patch.get_arrowstyle() for text in axes.texts]
    assert [type(head).__name__ for head in heads] == ["CurveFilledB", "Curve"]
    assert axes.get_xlim()[1] == pytest.approx(51)
