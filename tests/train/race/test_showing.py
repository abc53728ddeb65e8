"""Tries as a table and as a chart."""

from dataclasses import replace

import pytest

from hpml.train.race import picture, table, tries
from hpml.train.race.board import Entry

from .made_tries import TINY, below, made

INTERRUPTED = replace(made(2.0, id="i"), status=tries.INTERRUPTED, points=made().points[:1])
FAILED = replace(made(1.0, id="f"), status=tries.FAILED, points=(), why="no compiler")
BEGUN = replace(made(1.0, id="g"), status=tries.BEGAN, points=())


def test_each_try_has_a_row_with_how_it_ended_and_the_best_has_a_star():
    shown = [made(4.0), made(2.0, ranks=2), below(lr=9.0), INTERRUPTED, FAILED, BEGUN]
    rows = table.of_tries(shown, TINY).splitlines()
    assert max(map(len, rows)) <= 80
    assert rows[1].split() == ["1", "4.0", "128", "32", "0.2", "all", "off"]
    assert rows[2].split()[:3] == ["*", "2", "2.0"]
    assert rows[2].endswith("ranks 2")
    assert "lr 9; not reached: 40.0% at best" in rows[3]
    assert "interrupted" in rows[4]
    assert "failed: no compiler" in rows[5]
    assert "no end was recorded" in rows[6]


def test_a_try_on_a_busy_machine_is_marked():
    (_, row, *more) = table.of_tries([replace(made(), busy=0.8)], TINY).splitlines()
    assert "other programs used 80% of the cores" in " ".join(" ".join([row, *more]).split())


def test_the_board_has_a_place_for_each_learner_and_names_what_it_skipped():
    entries = [Entry("ada", made(2.0, ranks=2), 7), Entry("bob", made(3.0), 1)]
    rows = table.of_board(entries, ["torn.race.json"], TINY).splitlines()
    assert rows[1].split() == ["1", "2.0", "7", "ada", "ranks", "2", "(2", "cores)"]
    assert rows[2].split()[:4] == ["2", "3.0", "1", "bob"]
    assert rows[3] == "skipped 1 file that cannot be read: torn.race.json"
    assert "nobody yet" in table.of_board([], [], TINY)


def test_two_tries_are_compared_by_two_factors():
    one, other = made(2.0), replace(made(8.0), points=(replace(made().points[0], images=256),))
    other = replace(other, points=(tries.Point(256, 8.0, 0.6),))
    words = table.beside(one, other)
    assert words.startswith("4.00 times as fast as the other (8.0 s): 2.00 times from images")
    assert "2.00 times from images/s (32 to 64)" in words


def test_the_chart_has_a_line_for_each_try_and_marks_the_best():
    figure = picture.race_picture([made(4.0), made(2.0, ranks=2), INTERRUPTED, FAILED], TINY)
    (axes,) = figure.axes
    assert axes.get_title("left") == "The best try needs 2.0 s, 2.0 times as fast as the first" + (
        " (SYNTHETIC images)"
    )
    named = {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}
    assert list(named) == ["1: all off", "2: ranks 2: the best, 2.0 s", "3: all off (interrupted)"]
    assert list(named["1: all off"].get_xdata()) == [0, 2, 4]
    assert list(named["1: all off"].get_ydata()) == pytest.approx([10, 30, 60])
    widths = {label: line.get_linewidth() for label, line in named.items()}
    assert max(widths, key=widths.get) == "2: ranks 2: the best, 2.0 s"
    assert [line.get_marker() for line in axes.lines].count("X") == 1
    assert "s" in axes.get_xlabel()
    assert "%" in axes.get_ylabel()


def test_of_many_tries_only_the_latest_and_the_best_have_names():
    many = [made(1.0, id="best"), *(made(2.0 + k, id=str(k)) for k in range(20))]
    (axes,) = picture.race_picture(many, TINY).axes
    named = [line.get_label() for line in axes.lines if line.get_label()[0] != "_"]
    assert len(named) == picture.NAMED + 1
    assert named[0] == "1: all off: the best, 1.0 s"


def test_with_nothing_reached_or_nothing_tested_there_is_still_a_chart():
    for shown in ([below()], [FAILED], []):
        assert picture.race_picture(shown, TINY).axes[0].get_title("left").startswith("No try")
