"""The check of instrument: what its judges make of right and wrong traces."""

import gzip
import json
from dataclasses import replace

import pytest

from hpml.modules.m03_profiling.checks import _profiled_training as training
from hpml.modules.m03_profiling.checks import instrument
from hpml.modules.m03_profiling.checks._recorded import NoTrace, recorded
from hpml.modules.m03_profiling.checks.instrument import CHECK, STAGE

FILES, SHAPES, MEMORY, STEPS, NAMES, NO_MORE, SAME = (claim.judge for claim in CHECK.claims)


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def with_evidence(run, **change):
    evidence = replace(run.evidence, **change)
    return replace(run, evidence=evidence, stages={STAGE: evidence})


def with_first(run, **change):
    """The run with other evidence of rank 0."""
    first, *others = run.evidence.ranks
    return with_evidence(run, ranks=(replace(first, **change), *others))


def with_trace(run, edit):
    """The run with rank 0's trace as `edit` leaves its list of events."""
    value = run.values[0]
    trace = json.loads(value["trace"])
    trace["traceEvents"] = edit(trace["traceEvents"])
    return with_first(run, value=value | {"trace": json.dumps(trace).encode()})


def test_a_good_run_has_no_problem(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_are_fresh_for_every_seed_and_ranks_do_not_know_their_tickets():
    first, second = (training.inputs(seed, 2) for seed in (1, 2))
    assert first[0]["tickets"] != second[0]["tickets"] != first[1]["tickets"]
    sent, _ = training.serving()(first)
    assert all("tickets" not in rank for rank in sent)


@pytest.mark.parametrize("seed", range(20))
def test_a_second_window_would_be_over_and_a_third_not_begun(seed):
    (given,) = training.inputs(seed, 1)
    cycle = given["wait"] + given["warmup"] + given["active"]
    assert 2 * cycle <= given["steps"] < 2 * cycle + given["wait"]


def test_files_are_seen_from_outside(good):
    names = dict(good.evidence.files)
    assert FILES(with_evidence(good, files=names | {"traces/rank1.2.json": 9})).hint == "repeat"
    assert FILES(with_evidence(good, files=names | {"traces/notes": 9})).hint == "repeat"
    assert FILES(with_evidence(good, files=None)).hint == "repeat"
    for wrong in (["rank_1.json", "rank_0.json"], ["0.json"], ["rank00.json"]):
        problem = FILES(with_evidence(good, files={f"traces/{name}": 9 for name in wrong}))
        assert problem.message == f"no file has `rank0` in its name; there is {min(wrong)!r}"
        assert problem.hint == "rank_name"
    assert FILES(with_evidence(good, files=names | {"notes": 9})) is None  # in another folder


@pytest.mark.parametrize(("name", "rank", "is_its"), [
    ("rank1.json", 1, True),
    ("rank10.json", 1, False),
    ("node3_rank1.17.pt.trace.json", 1, True),
    ("1.json", 1, False),
])  # fmt: skip
def test_a_name_has_its_rank(name, rank, is_its):
    assert training.is_named_after(rank, name) == is_its


def test_a_trace_without_shapes_or_memory(good):
    def without_shapes(events):
        return [e | {"args": {}} if e.get("cat") == "cpu_op" else e for e in events]

    def without_memory(events):
        return [e for e in events if e["name"] != "[memory]"]

    bare = with_trace(good, without_shapes)
    assert (MEMORY(bare), STEPS(bare)) == (None, None)
    small = with_trace(good, without_memory)
    assert (SHAPES(small), STEPS(small)) == (None, None)
    neither = with_trace(good, lambda events: without_memory(without_shapes(events)))
    assert SHAPES(neither).hint == "shapes"
    assert STEPS(neither) == NAMES(neither) == SHAPES(neither)  # whose work is it?


def test_a_trace_of_another_training_is_none_of_this_one(good, played):
    """A forged trace: all marks are right, and the sizes are those of somebody else's tickets."""
    value = good.values[0] | {"trace": played(CHECK, 2, 6).values[0]["trace"]}
    forged = with_first(good, value=value)
    assert SHAPES(forged).hint == "shapes"
    assert MEMORY(forged).hint == "memory"
    assert STEPS(forged) is not None
    assert NAMES(forged) is not None


def test_a_trace_without_steps_shows_nothing(good):
    def without_steps(events):
        return [event for event in events if not event["name"].startswith("ProfilerStep#")]

    assert SHAPES(with_trace(good, without_steps)).hint == "no_steps"


def test_too_many_operators_are_seen(good):
    many = with_trace(good, lambda events: events * 12)
    assert SHAPES(many).hint == MEMORY(many).hint == STEPS(many).hint == "outside"


def test_recording_in_other_steps_is_seen(good):
    asked = good.evidence.ranks[0].asked
    first = replace(asked[0], request=asked[0].request | {"profiled": True})
    assert NO_MORE(with_first(good, asked=(first, *asked[1:]))).hint == "first"
    fifth = replace(asked[4], request=asked[4].request | {"profiled": True})
    assert NO_MORE(with_first(good, asked=(*asked[:4], fifth, *asked[5:]))).hint == "outside"


def test_a_training_that_was_not_recorded_is_seen(good, with_ranks):
    def of_rank(rank):
        asked = (replace(a, request=a.request | {"profiled": False}) for a in rank.asked)
        return replace(rank, asked=tuple(asked))

    assert NO_MORE(with_ranks(good, of_rank, STAGE)).hint == "no_file"


def test_the_loop_is_the_same(good):
    asked = good.evidence.ranks[0].asked
    assert SAME(with_first(good, asked=(asked[1], asked[0], *asked[2:]))).hint == "loop"
    value = good.values[0]
    value = value | {"weights": value["weights"] + 1e-3}
    assert SAME(with_first(good, value=value)).hint == "loop"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"traceEvents": 1}',
        b'{"traceEvents": [1]}',
        b'{"traceEvents": [{"name": "[memory]", "args": []}]}',
        b'{"traceEvents": [{"name": "x", "ts": 1e308, "dur": 1e308}]}',
        b"[" * 100_000,
        b'{"traceEvents": [{"args": ' + b"[" * 100_000,
        gzip.compress(b"{}"),
        b" " * 1001,
    ],
    ids=range(11),  # no bytes of a file in a name: those of gzip have the time in them
)
def test_what_is_no_trace_gets_one_line(data):
    with pytest.raises(NoTrace) as raised:
        recorded(data, 1000 if data.isspace() else 10**6)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 120


def test_names_are_those_of_the_text():
    assert set(instrument.NAMES) == set(training.PARTS)
