"""What comes up the channel from a rank that nobody trusts: bounded, whatever it is."""

import msgpack
import pytest

from hpml.ranks.channel import MAX_EVENT, MAX_ITEMS, EventReader
from hpml.ranks.parent.ledger import MAX_MARKS, MAX_SAMPLES, RankLog

CALL = ["call", 1, "all_reduce", list(range(64)), 1, "float32", [2] * 8, 8, "sum", None, 0.0]


def test_events_come_out_whole_however_they_arrive():
    data = b"".join(msgpack.packb(event) for event in (CALL, ["begin", 0.0], ["value", b"\xc0"]))
    reader, found = EventReader(), []
    for byte in data:
        found += reader.feed(bytes([byte]))
    assert found == [CALL, ["begin", 0.0], ["value", b"\xc0"]]


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\x3f\xff\xff\xff",  # a list of a thousand million
        msgpack.packb(["call", *range(MAX_ITEMS)]),
        msgpack.packb(["call", [], [], []]),  # one list more than an event has
        b"\x91" * 600 + b"\xc0",
        msgpack.packb({"value": 1}),
        msgpack.packb(["value", {}, {"a": 1}]),
        msgpack.packb(["value", msgpack.ExtType(1, b"12")]),
        msgpack.packb(["raised", "x" * 2**18]),
        msgpack.packb([1, "value"]),
        b"\xc1",
    ],
)
def test_what_is_no_event_is_refused_before_it_takes_memory_and_for_good(data):
    reader = EventReader()
    with pytest.raises(ValueError, match="malformed"):
        reader.feed(data)
    with pytest.raises(ValueError, match="more than"):
        reader.feed(msgpack.packb(CALL))


def test_an_event_and_all_of_them_have_a_limit():
    reader = EventReader()
    reader.feed(b"\x92\xa5value\xc6\x3f\xff\xff\xff" + bytes(MAX_EVENT - 2**20))
    with pytest.raises(ValueError, match="at once"):
        reader.feed(bytes(2**20 + 1))
    reader = EventReader(total=3000)
    assert len(reader.feed(msgpack.packb(["begin"]) * 400)) == 400
    with pytest.raises(ValueError, match="in all"):
        reader.feed(msgpack.packb(["begin"]) * 400)


def test_marks_and_samples_are_bounded():
    log = RankLog(0, 0.0)
    for index in range(MAX_MARKS):
        log.take(["mark", "x", 0.0], 0.0)
        log.take(["sample", None, index], 0.0)
    assert len(log.samples) == MAX_SAMPLES
    assert log.samples[-1] == (None, MAX_MARKS - 1)
    with pytest.raises(ValueError, match="marks"):
        log.take(["mark", "x", 0.0], 0.0)
    assert len(log.marks) == MAX_MARKS
