"""Who reads and who computes when, from the order of events: nothing here is timed."""

import threading
from itertools import pairwise

import pytest

from hpml.modules.m02_hardware.lecture.prefetching import (
    COMPUTE,
    READ,
    Span,
    part_seconds,
    picture,
    step_seconds,
    steps,
)


def test_with_nothing_ahead_every_read_waits_for_the_compute_before():
    spans = steps(lambda number: number, lambda batch: None, 3)
    assert [(span.what, span.batch) for span in spans] == [
        (what, number) for number in range(3) for what in (READ, COMPUTE)
    ]
    assert all(before.end <= after.begin for before, after in pairwise(spans))


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_a_batch_is_read_while_the_one_before_is_computed_on(ahead):
    last_read = [threading.Event() for _ in range(6)]

    def read(number):
        last_read[number].set()
        return number

    def compute(number):
        if number + 1 < 6:  # never ends unless the next one is read meanwhile
            assert last_read[number + 1].wait(timeout=60)

    spans = steps(read, compute, 6, ahead)
    assert [span.batch for span in spans if span.what == COMPUTE] == list(range(6))
    assert sorted(span.batch for span in spans if span.what == READ) == list(range(6))


@pytest.mark.parametrize("ahead", [1, 2])
def test_no_more_is_read_ahead_than_asked_for(ahead):
    started = []

    def compute(number):
        assert len(started) <= number + 1 + ahead

    steps(lambda number: started.append(number) or number, compute, 8, ahead)
    assert started == list(range(8))


def test_more_ahead_than_batches_reads_each_once():
    started = []
    steps(lambda number: started.append(number), lambda _: None, 2, ahead=9)
    assert started == [0, 1]


@pytest.mark.parametrize("ahead", [0, 1])
def test_an_error_in_reading_reaches_the_caller(ahead):
    def read(number):
        if number == 2:
            raise OSError("no such file")
        return number

    with pytest.raises(OSError, match="no such file"):
        steps(read, lambda _: None, 4, ahead)


def test_a_step_is_from_end_to_end_and_the_first_does_not_count():
    spans = [Span(READ, 0, 0, 9), Span(COMPUTE, 0, 9, 10), Span(READ, 1, 10, 12)]
    spans += [Span(COMPUTE, 1, 12, 14), Span(COMPUTE, 2, 14, 18), Span(COMPUTE, 3, 18, 24)]
    assert step_seconds(spans) == 4
    assert part_seconds(spans, READ) == 5.5
    assert part_seconds(spans, COMPUTE) == 3


def test_every_read_and_every_compute_is_a_bar_in_milliseconds():
    spans = [Span(READ, 0, 0.0, 0.03), Span(COMPUTE, 0, 0.03, 0.08)]
    (axes,) = picture({"played": spans}, title="one").axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [
        pytest.approx((0, 30)),
        pytest.approx((30, 50)),
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == [READ, COMPUTE]
