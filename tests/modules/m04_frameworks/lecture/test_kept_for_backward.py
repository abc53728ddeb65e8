"""What each way keeps for backward: counted, with conclusions that hold or do not."""

from dataclasses import replace

import pytest

from hpml.modules.m04_frameworks.lecture import kept_for_backward
from hpml.modules.m04_frameworks.lecture.kept_for_backward import WAYS, recorded
from hpml.modules.m04_frameworks.lecture.live_tensors import LiveTensor, Recording


@pytest.fixture(scope="module")
def ways():
    return {way: recorded(way) for way in WAYS}


@pytest.mark.parametrize("way", WAYS)
def test_without_numbers_the_same_is_recorded(way):
    assert recorded(way, 2) == recorded(way, 2, "cpu")


def test_the_conclusions_hold(ways):
    assert kept_for_backward.peaks_at_turn(ways["GELU"])
    assert kept_for_backward.two_bars(ways["GELU"]).held
    assert kept_for_backward.in_place(ways).held
    assert kept_for_backward.checkpointing(ways).held


def test_one_image_peaks_elsewhere():
    """With a batch of one the gradients outweigh what is kept."""
    assert not kept_for_backward.peaks_at_turn(recorded("GELU", 1))


def test_a_first_convolution_that_is_kept_is_reported(ways):
    tensors = tuple(
        replace(one, kind="kept for backward") if one.operator == "convolution" else one
        for one in ways["GELU"].tensors
    )
    found = kept_for_backward.two_bars(replace(ways["GELU"], tensors=tensors))
    assert not found.held
    assert found.first.kind == "kept for backward"


def test_ways_that_keep_the_same_are_not_called_better(ways):
    same = dict.fromkeys(WAYS, ways["GELU"])
    assert not kept_for_backward.in_place(same).held
    assert not kept_for_backward.checkpointing(same).held


def test_the_block_has_room_for_the_peak(ways):
    for recording in ways.values():
        assert recording.peak <= kept_for_backward.block(recording) < 1.1 * recording.peak


def test_only_checkpoints_compute_again(ways):
    assert not any(ways[way].total("computed again") for way in WAYS[:3])
    assert ways[WAYS[3]].total("computed again") > ways[WAYS[3]].total("kept for backward")


def test_the_table_is_in_mb():
    one = LiveTensor("op", 3_000_000, 0, 0, "kept for backward")
    two = replace(one, nbytes=2_000_000, born=1, last=1, kind="temporary")
    table = kept_for_backward.table({"way": Recording(("a", "b"), 1, (one, two))})
    assert table.splitlines()[1].split() == ["way", "3", "3", "5"]
