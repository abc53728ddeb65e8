"""The check of step_breakdown: what its judges make of right and wrong values."""

import copy
import json
import random

import pytest

from hpml.checks.contract import Run
from hpml.modules.m03_profiling.checks._planted_trace import PARTS
from hpml.modules.m03_profiling.checks._step_parts import (
    KINDS,
    expect,
    inputs,
    recorded,
    slower,
    step_parts,
)
from hpml.modules.m03_profiling.checks.step_breakdown import CHECK, wrong_sums
from hpml.ranks.evidence import Evidence, RankEvidence
from hpml.trace.profiler.read import read
from hpml.trace.profiler.shares import shares_of_steps

ADDS_UP, NESTED, MESSAGES, RECORDED = (claim.judge for claim in CHECK.claims)
GIVEN = inputs(5, 1)
EXPECTED = expect(GIVEN, 1)


def a_run(change=lambda value: None):
    """A run of an answer that is right but for what `change` does to its first traces' steps."""
    value = {
        kind: [[dict(parts) for parts, *_ in trace] for trace in EXPECTED[kind]] for kind in KINDS
    }
    value = copy.deepcopy(value)
    change(value)
    evidence = Evidence(1, (RankEvidence(0, "returned", value=value),), 0.1)
    return Run(1, 5, GIVEN, EXPECTED, evidence, {})


def test_a_right_answer_has_no_problem():
    assert [claim.judge(a_run()) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_are_fresh_for_every_seed():
    assert inputs(1, 1) != inputs(2, 1)
    assert expect(inputs(1, 1), 1)["recorded"] != expect(inputs(2, 1), 1)["recorded"]


@pytest.mark.parametrize("factor", [0.97, 1.03])
@pytest.mark.parametrize(("kind", "judge"), [("nested", NESTED), ("messages", MESSAGES)])
def test_three_percent_are_too_much(kind, judge, factor):
    def change(value):
        step = value[kind][0][1]
        more = step["backward"] * (factor - 1)
        step["backward"] += more
        step["other"] -= more

    assert judge(a_run(change)) is not None


def test_a_tenth_of_a_percent_is_not():
    def change(value):
        for traces in value.values():
            for trace in traces:
                for step in trace:
                    for part in step:
                        step[part] *= 1.001

    assert [claim.judge(a_run(change)) for claim in CHECK.claims] == [None] * len(CHECK.claims)


@pytest.mark.parametrize(
    ("returned", "hint"),
    [
        (None, "form"),
        ([1.0], "form"),
        ([{"loading": 1.0}], "form"),
        ([dict.fromkeys(PARTS, "a")], "form"),
        ([dict.fromkeys(PARTS, float("nan"))], "form"),
        ([dict.fromkeys(PARTS, 1.0)], "steps"),
        ([], "steps"),
    ],
)
def test_what_has_another_form(returned, hint):
    run = a_run(lambda value: value["nested"].__setitem__(0, returned))
    assert ADDS_UP(run).hint == NESTED(run).hint == hint
    assert MESSAGES(run) is None


def test_a_step_of_100_ms_is_no_percentage():
    right = [({**dict.fromkeys(PARTS, 0.0), "forward": 90.0, "other": 10.0}, 0.0)] * 2
    assert wrong_sums([parts for parts, _ in right], right) is None
    shares = [{**parts, "forward": 0.9, "other": 0.1} for parts, _ in right]
    assert wrong_sums(shares, right).hint == "units"


def test_the_library_finds_the_same_in_the_recorded_trace(tmp_path):
    """A second opinion, from other code; to it a call of c10d is communication, too."""
    path = tmp_path / "trace.json"
    events = slower(recorded(), random.Random(1))
    shown = [event for event in events if not event["name"].startswith("c10d::")]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": shown}))
    library = shares_of_steps(read(path))
    mine = step_parts(events)
    assert len(mine) == 3
    for step in mine:
        theirs = library[step.number]
        assert step.step == pytest.approx(1e3 * theirs.step)
        for part, seconds in theirs.parts().items():
            assert step.parts[part] == pytest.approx(1e3 * seconds, abs=0.005 * step.step)


def test_the_recorded_trace_gets_the_hint_of_the_made_ones():
    def exposed(value, kind):
        step = value[kind][0][1]
        less = 0.5 * step["communication"]
        step["communication"] -= less
        step["backward"] += less

    def unnamed(value):
        for step in value["recorded"][0]:
            step["other"] += step["backward"]
            step["backward"] = 0.0

    assert RECORDED(a_run(unnamed)).hint == "names"
    both = a_run(lambda value: (exposed(value, "messages"), unnamed(value)))
    assert RECORDED(both).hint == MESSAGES(both).hint == "exposed"


def test_the_step_of_the_question_has_the_parts_of_its_answer():
    """Milliseconds: loading with transforms inside, and a message within backward."""
    spans = [
        ("ProfilerStep#1", 0, 100, 0),
        ("loading", 0, 30, 0),
        ("transforms", 5, 25, 0),
        ("forward", 30, 50, 0),
        ("backward", 50, 90, 0),
        ("gloo:all_reduce", 60, 85, 7),
        ("aten::mm", 50, 75, 0),
    ]
    events = [
        {
            "ph": "X",
            "name": name,
            "pid": 1,
            "tid": thread,
            "ts": 1e3 * begin,
            "dur": 1e3 * (end - begin),
        }
        for name, begin, end, thread in spans
    ]
    (step,) = step_parts(events)
    right = {"loading": 10, "transforms": 20, "forward": 20, "backward": 30, "optimizer": 0}
    assert step.parts == pytest.approx(right | {"communication": 10, "other": 10})
    assert step.hidden == pytest.approx(15)
