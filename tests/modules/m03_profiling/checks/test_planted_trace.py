"""Planted traces: their parts are known without looking at their events."""

import random

import pytest

from hpml.modules.m03_profiling.checks._planted_trace import OWN_WORDS, PARTS, PYTORCHS, planted
from hpml.modules.m03_profiling.checks._step_parts import step_parts

WORDS = pytest.mark.parametrize("words", [OWN_WORDS, PYTORCHS], ids=["own words", "PyTorch's"])
DISTRIBUTED = pytest.mark.parametrize("distributed", [False, True], ids=["one process", "messages"])


def a_trace(seed, **options):
    return planted(random.Random(seed), **options)


@WORDS
@DISTRIBUTED
@pytest.mark.parametrize("seed", range(5))
def test_what_is_known_is_what_is_in_the_events(seed, words, distributed):
    trace = a_trace(seed, distributed=distributed, words=words)
    seen = step_parts(trace.events)
    assert [step.number for step in seen] == [step.number for step in trace.steps]
    for got, known in zip(seen, trace.steps, strict=True):
        assert got.parts == pytest.approx(known.parts, abs=1e-4)
        assert got.hidden == pytest.approx(known.hidden, abs=1e-4)


@DISTRIBUTED
def test_the_parts_add_up_to_the_step(distributed):
    trace = a_trace(1, distributed=distributed)
    marks = [e for e in trace.events if e["name"].startswith("ProfilerStep#")]
    marks.sort(key=lambda event: event["ts"])
    assert [step.step for step in trace.steps] == pytest.approx([e["dur"] / 1e3 for e in marks])


def test_every_difficulty_is_in_a_trace_with_messages():
    trace = a_trace(2, distributed=True)
    complete = [event for event in trace.events if event["ph"] == "X"]
    marks = [event for event in complete if event["name"].startswith("ProfilerStep#")]
    messages = [event for event in complete if event["name"].startswith("gloo:")]

    def end(event):
        return event["ts"] + event["dur"]

    assert all(min(step.parts[name] for name in PARTS) > 0 for step in trace.steps)
    assert all(step.hidden > 0 for step in trace.steps)
    assert any(m["ts"] < end(s) < end(m) for m in messages for s in marks)  # crosses a border
    assert any(  # two at the same time
        one is not two and one["ts"] < two["ts"] < end(one) for one in messages for two in messages
    )
    assert len({event["tid"] for event in complete}) >= 5
    assert any(event["dur"] == 0 for event in complete)
    assert any("dur" not in event for event in trace.events)
    assert trace.events != sorted(trace.events, key=lambda event: event.get("ts", 0.0))
    lengths = [step.step for step in trace.steps]
    assert max(lengths) > 1.2 * min(lengths)


def test_without_messages_nothing_is_communication():
    trace = a_trace(3, distributed=False)
    assert {step.parts["communication"] for step in trace.steps} == {0.0}
    assert not [event for event in trace.events if event["name"].startswith("gloo:")]
