"""Horovod's timelines: what a tensor waited for, and with which others it was sent."""

import pytest

from hpml.trace.horovod_timeline import Span, collectives, held_up
from hpml.trace.horovod_timeline_file import parse

from .horovod_file import Writer


def test_negotiation_is_timed_from_the_first_rank_to_the_last():
    file = Writer()
    file.now = 1000
    file.negotiate("a", [2, 0, 1])
    file.reduce({"a": 8}, us=400)
    (operation,) = parse(file.content).operations
    assert [rank for rank, _ in operation.ready] == [2, 0, 1]
    assert [at for _, at in operation.ready] == pytest.approx([1000e-6, 1010e-6, 1020e-6])
    assert operation.begin == pytest.approx(1000e-6)
    assert operation.seconds("negotiate") == pytest.approx(30e-6)
    assert operation.seconds("transfer") == pytest.approx(400e-6)
    assert operation.seconds("copy") == 0
    assert (operation.dtype, operation.shape, operation.nbytes) == ("float32", (8,), 32)


def test_fused_tensors_are_copied_in_and_out():
    file = Writer()
    file.reduce({"a": 1, "b": 1}, us=100)
    (one,) = collectives(parse(file.content))
    assert [span.name for span in one.operations[0].activities] == [
        "MEMCPY_IN_FUSION_BUFFER",
        "GLOO_ALLREDUCE",
        "MEMCPY_OUT_FUSION_BUFFER",
    ]
    assert one.operations[0].seconds("copy") == pytest.approx(10e-6)
    assert one.transfer.seconds == pytest.approx(100e-6)
    assert one.nbytes == 8


def test_a_message_takes_from_its_first_begin_to_its_last_end():
    file = Writer()
    for kind, name in (("B", "ALLREDUCE"), ("B", "GLOO_ALLREDUCE"), ("E", "")):
        for tensor in ("a", "b"):
            file.event(kind, tensor, name)
            file.now += 10
    (one,) = collectives(parse(file.content))
    assert (one.transfer.begin, one.transfer.end) == pytest.approx((20e-6, 50e-6))


def test_messages_at_the_same_microsecond_are_not_taken_for_one():
    file = Writer()
    file.reduce({"a": 1}, us=0)
    file.reduce({"b": 1}, us=0)
    assert [len(one.operations) for one in collectives(parse(file.content))] == [1, 1]


def test_waiting_for_a_gpu_is_no_transfer():
    file = Writer()
    file.event("B", "a", "ALLREDUCE")
    for activity, us in (("WAIT_FOR_DATA", 50), ("INIT_NCCL", 7), ("NCCL_ALLREDUCE", 20)):
        file.event("B", "a", activity)
        file.now += us
        file.event("E", "a")
    file.event("E", "a", args='"dtype": "float16", "shape": "[2, 3]"')
    (operation,) = parse(file.content).operations
    seconds = [operation.seconds(phase) for phase in ("wait", "prepare", "transfer")]
    assert seconds == pytest.approx([50e-6, 7e-6, 20e-6])
    assert operation.nbytes == 12


def test_a_round_has_each_tensor_once():
    file = Writer()
    for tensors in ({"a": 1}, {"b": 2}, {"a": 3}):
        file.reduce(tensors, us=100)
    timeline = parse(file.content)
    assert [(o.tensor, o.shape) for o in timeline.round(0).operations] == [("a", (1,)), ("b", (2,))]
    assert [(o.tensor, o.shape) for o in timeline.round(1).operations] == [("a", (3,))]
    last = [(o.tensor, o.shape) for o in timeline.round(-1).operations]
    assert last == [("b", (2,)), ("a", (3,))]
    assert [o.shape for o in timeline.round(-2).operations] == [(1,)]


def test_a_negotiation_is_held_up_by_what_is_sent_meanwhile():
    file = Writer()
    file.now = 100
    file.reduce({"a": 1, "b": 1}, us=90)  # fused: 100 µs with the copies
    file.now = 300
    file.reduce({"c": 1}, us=100)
    timeline = parse(file.content)

    def held(begin, end):
        return round(1e6 * held_up(timeline, Span("", begin / 1e6, end / 1e6)))

    assert held(0, 500) == 200  # two messages, and not three
    assert held(150, 350) == 100
    assert held(210, 290) == 0
    assert held_up(timeline, Span("", 0.0)) == 0
