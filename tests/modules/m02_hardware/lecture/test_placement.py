"""Ranks that share a CPU wait for it; that is concluded only where it was measured."""

import os
import subprocess

import pytest

from hpml.modules.m02_hardware.lecture import placement
from hpml.modules.m02_hardware.lecture.placement import RankTime, measure, picture, share, waits

APART = [RankTime(0.5, 0.01), RankTime(0.5, 0.03)]
TOGETHER = [RankTime(0.5, 0.5), RankTime(0.5, 0.48)]

needs_two = pytest.mark.skipif(not placement.available(), reason="a processor with one CPU alone")


def measured(apart=APART, together=TOGETHER):
    return {"not bound": APART, "apart": apart, "together": together}


def test_ranks_on_one_cpu_wait_for_each_other():
    cpu = min(os.sched_getaffinity(0))
    (times,) = measure({"one": [(cpu,), (cpu,)]}, count=3_000_000).values()
    # Whatever else runs here: while one of them runs, the other waits.
    assert sum(one.waiting for one in times) > 0.5 * min(one.running for one in times)
    assert all(one.running > 0 for one in times)


@needs_two
def test_the_lectures_placements_are_of_two_ranks():
    placements = placement.placements()
    assert [len(ranks) for ranks in placements.values()] == [2, 2, 2]
    free, apart, together = placements.values()
    assert [list(cpus) for cpus in free] == [[], []]
    assert len({*apart[0], *apart[1]}) == 2
    assert together[0] == together[1]


def test_a_cpu_that_is_not_there_is_an_error():
    with pytest.raises((OSError, subprocess.SubprocessError)):
        measure({"far": [(4000,)]}, count=1)


def test_the_share_of_waiting():
    assert share(TOGETHER) == pytest.approx(0.98 / 1.98)
    assert share([RankTime(1.0, 0.0)]) == 0


def test_it_holds_where_one_cpu_was_the_cause():
    found = waits(measured())
    assert found == (True, share(APART), share(APART), share(TOGETHER), 0.5, 0.49)
    assert not waits(measured(apart=TOGETHER)).held
    assert not waits(measured(together=APART)).held


def test_the_picture_has_a_bar_for_each_rank():
    (axes,) = picture(measured()).axes
    assert axes.get_title("left") == "Together, ranks wait for it 49% of the time"
    assert [text.get_text() for text in axes.get_yticklabels()][-1] == "together: rank 1"
    assert axes.get_xlabel() == "seconds"
    assert len(axes.patches) == 12
