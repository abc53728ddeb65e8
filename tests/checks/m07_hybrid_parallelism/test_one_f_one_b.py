"""Exercise one_f_one_b: what its judges say of schedules, and of memory."""

from dataclasses import replace

import pytest

from hpml.checks import judge
from hpml.checks.contract import CannotJudge
from hpml.checks.m07_hybrid_parallelism._pipelined_claims import most_live, order_of
from hpml.checks.m07_hybrid_parallelism.one_f_one_b import CHECK, MICRO_BATCHES, WIDE
from hpml.checks.plays import play_once
from hpml.course import schedule, wrong_answers
from hpml.predict import pipeline

IDLE, LIVE, MEMORY = [claim.judge for claim in CHECK.claims][3:]
ACTIVATIONS = 3 * 8 * WIDE  # bytes, of a micro-batch


@pytest.fixture(scope="module")
def good(solution):
    source = solution("one_f_one_b").replace("%%answer", "#", 1)
    run, fault = play_once(CHECK, source, world_size=2, seed=5)
    assert fault is None
    return run


def in_order(run, schedule):
    """The run whose ranks asked for the same passes of the first step in a schedule's order."""
    parts = run.expected["steps"][0].parts
    ranks = []
    for rank, order in zip(run.evidence.ranks, schedule.orders, strict=True):
        own = [one for one in rank.asked if isinstance(one.request, dict)][: len(order)]
        forward = [one for one in own if "forward" in one.request]
        backward = [one for one in own if "backward" in one.request]
        assert len(forward) == len(backward) == len(parts)
        places = {
            one: n
            for kind in ("forward", "backward")
            for n, one in enumerate(p for p in order if p.kind == kind)
        }
        moved, known = [], {}
        for one in order:
            if one.kind == "forward":
                known[one.micro_batch] = len(known)
                moved.append(forward[places[one]])
            else:
                asked = backward[places[one]]
                request = {**asked.request, "of": known[one.micro_batch]}
                moved.append(replace(asked, request=request))
        steps = [one for one in rank.asked if one.request == "step"][:1]
        rest = rank.asked[len(own) + 1 :]
        ranks.append(replace(rank, asked=(*steps, *moved, *rest)))
    return replace(run, evidence=replace(run.evidence, ranks=tuple(ranks)))


def with_peaks(run, peaks):
    stage = run.stages["memory"]
    ranks = [replace(one, peak_bytes=n) for one, n in zip(stage.ranks, peaks, strict=True)]
    return replace(run, stages={**run.stages, "memory": replace(stage, ranks=tuple(ranks))})


def test_inputs_are_fresh_for_every_seed():
    first, other = (CHECK.inputs(seed, 4)["steps"][0]["served"][0]["x"] for seed in (1, 2))
    assert first.shape != other.shape or not first.equal(other)


def test_a_good_run_passes(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_its_order_is_that_of_the_paper(good):
    assert order_of(good, 0).orders == pipeline.one_f_one_b(2, 5).orders
    assert most_live(order_of(good, 0)) == {0: 2, 1: 1}


def test_gpipe_has_the_same_bubble_and_more_under_way(good):
    run = in_order(good, pipeline.gpipe(2, 5))
    assert IDLE(run) is None
    assert LIVE(run).hint == "gpipe"


def test_a_pipeline_that_is_never_full_idles_more(good):
    alone = pipeline.Schedule("", (pipeline.one_f_one_b(1, 5).orders[0],) * 2)
    run = in_order(good, alone)
    assert IDLE(run).hint == "flush"
    assert LIVE(run) is None


def test_memory_of_one_micro_batch_too_many_is_seen(good):
    more = 24_000_000
    assert MEMORY(with_peaks(good, [2 * ACTIVATIONS + more, ACTIVATIONS + more])) is None
    for peaks in ([3 * ACTIVATIONS + more, 0], [0, MICRO_BATCHES * ACTIVATIONS]):
        assert MEMORY(with_peaks(good, peaks)).hint == "memory"


def test_memory_counts_only_where_gradients_are_right(good):
    stage = good.stages["memory"]
    ranks = [replace(one, value={**one.value, "gradients": [{}]}) for one in stage.ranks]
    run = replace(good, stages={**good.stages, "memory": replace(stage, ranks=tuple(ranks))})
    assert MEMORY(run).hint == "no_backward"


def test_memory_that_nobody_counts_is_not_judged(good):
    assert isinstance(MEMORY(with_peaks(good, [None, None])), CannotJudge)


@pytest.mark.parametrize(
    ("name", "seen", "hint"),
    [
        ("blocking_sends", "everybody sends and nobody receives", "If all wait in blocking sends:"),
        ("warm_up_from_the_front", "everybody receives and nobody sends", "If all wait in recv:"),
        ("no_cool_down", "rank 1 waits in send to 0", "If sends return at once and are never"),
    ],
)
def test_a_schedule_that_hangs_is_named_for_what_its_ranks_wait_in(solution, name, seen, hint):
    (wrong,) = [w for w in wrong_answers.read(schedule.load(), "one_f_one_b") if w.name == name]
    verdict = judge("one_f_one_b", wrong.answer(solution("one_f_one_b")), worlds=(2,))
    assert verdict.cause == "hang"
    assert seen in verdict.headline
    assert "everybody sends" not in verdict.headline or name == "blocking_sends"
    # Each sentence of the hint says for which wait it is: it accuses no other answer.
    assert hint in verdict.claims[0].hint
