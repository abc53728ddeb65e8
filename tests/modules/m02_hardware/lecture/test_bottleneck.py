"""The part of a step that sets the pace."""

from types import SimpleNamespace

import pytest

from hpml.modules.m02_hardware.lecture.bottleneck import found, largest, memory, picture

FAST = {"load": 0.01, "forward": 0.05, "backward": 0.12, "update": 0.01, "communicate": 0.07}
SLOW = FAST | {"communicate": 0.7}


def test_forward_and_backward_are_one_part():
    step = {"load": 0.08, "forward": 0.06, "backward": 0.06, "update": 0.0, "communicate": 0.1}
    assert largest(step) == "forward and backward"
    assert largest(SLOW) == "communicating"


def test_another_link_is_another_bottleneck():
    held, fast, share, slow, _ = found(FAST, SLOW)
    assert held
    assert (fast, slow) == ("forward and backward", "communicating")
    assert share == pytest.approx(0.17 / 0.26)


def test_two_parts_that_are_nearly_equal_are_no_finding():
    assert not found(FAST | {"communicate": 0.16}, SLOW).held
    assert not found(FAST, FAST).held


def test_a_bar_for_each_link_and_the_least_its_rate_allows():
    axes = picture({"1gbit": FAST, "25mbit": SLOW}, gradients=1_000_000).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1 Gbit/s", "25 Mbit/s"]
    assert "Over 25 Mbit/s, communicating is 79%" in axes.get_title(loc="left")
    begin, end = axes.lines[-1].get_xdata()
    assert end - begin == pytest.approx(320)  # ms: a megabyte at 25 Mbit/s


def test_memory_is_that_of_the_rank_that_held_most():
    ranks = [SimpleNamespace(peak_bytes=n) for n in (2_000_000, 3_000_000)]
    assert memory(SimpleNamespace(ranks=ranks)).startswith(
        "memory: a rank held at most 3 MB, freed"
    )
    assert "does not count" in memory(SimpleNamespace(ranks=[SimpleNamespace(peak_bytes=None)]))
