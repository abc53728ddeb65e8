"""Exercise one_f_one_b: what its judges say of schedules, and of memory."""

from dataclasses import replace

import pytest

from hpml.checks import judge
from hpml.checks.contract import CannotJudge
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m07_hybrid_parallelism.checks import _pipelined_training as training
from hpml.modules.m07_hybrid_parallelism.checks._pipelined_claims import most_live, order_of
from hpml.modules.m07_hybrid_parallelism.checks.one_f_one_b import CHECK, MICRO_BATCHES, WIDE
from hpml.predict import pipeline

MEMORY = CHECK.claims[-1].judge
ACTIVATIONS = 3 * 8 * WIDE  # bytes, of a micro-batch


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


@pytest.fixture
def in_memory(good, with_ranks):
    """`in_memory(change)`: with `change(rank's evidence)` where memory is counted."""
    return lambda change: replace(with_ranks(good, change, "memory"), evidence=good.evidence)


@pytest.fixture
def with_peaks(in_memory):
    """`with_peaks(peaks)`: with these peaks of the ranks' memory."""
    return lambda peaks: in_memory(lambda rank: replace(rank, peak_bytes=peaks[rank.rank]))


def test_inputs_are_fresh_for_every_seed():
    first, other = (CHECK.inputs(seed, 4)["steps"][0]["served"][0]["x"] for seed in (1, 2))
    assert first.shape != other.shape or not first.equal(other)


def test_its_order_is_that_of_the_paper(good):
    assert order_of(good, 0).orders == pipeline.one_f_one_b(2, 5).orders
    assert most_live(order_of(good, 0)) == {0: 2, 1: 1}


def test_a_micro_batch_has_the_activations_that_the_text_names():
    (most, *_) = training.micro_batches(MICRO_BATCHES)
    assert round(8 * most * WIDE / 1e6) == 4  # MB


def test_memory_of_one_micro_batch_too_many_is_seen(with_peaks):
    more = 24_000_000
    assert MEMORY(with_peaks([2 * ACTIVATIONS + more, ACTIVATIONS + more])) is None
    for peaks in ([3 * ACTIVATIONS + more, 0], [0, MICRO_BATCHES * ACTIVATIONS]):
        assert MEMORY(with_peaks(peaks)).hint == "memory"


def test_memory_counts_only_where_gradients_are_right(in_memory):
    run = in_memory(lambda rank: replace(rank, value=rank.value | {"gradients": [{}]}))
    assert MEMORY(run).hint == "no_backward"


def test_memory_that_nobody_counts_is_not_judged(with_peaks):
    assert isinstance(MEMORY(with_peaks([None, None])), CannotJudge)


@pytest.mark.parametrize(
    ("name", "seen", "hint"),
    [
        ("warm_up_from_the_front", "everybody receives and nobody sends", "If all wait in recv:"),
        ("no_cool_down", "rank 1 waits in send to 0", "If sends return at once and are never"),
    ],
)
def test_a_schedule_that_hangs_is_named_for_what_its_ranks_wait_in(solution, name, seen, hint):
    (wrong,) = [w for w in wrong_answers.read(schedule.load(), "one_f_one_b") if w.name == name]
    verdict = judge("one_f_one_b", wrong.answer(solution("one_f_one_b")), worlds=(2,))
    assert verdict.cause == "hang"
    assert seen in verdict.headline
    assert "everybody sends" not in verdict.headline
    # Each sentence of the hint says for which wait it is: it accuses no other answer.
    assert hint in verdict.claims[0].hint
