"""Messages of the ledger, paired: which send meets which receive."""

import pytest

from hpml.ranks.evidence import ANYONE, Call
from hpml.ranks.parent.diagnose import mismatch
from hpml.ranks.parent.ledger import RankLog
from hpml.ranks.parent.messages import first_misfit, never_waited_for, place_of


def call(index, operation, peer, sequence=1, dtype="float32", length=3, **more):
    size = {"float32": 4, "int64": 8, "float64": 8}[dtype]
    return Call(
        index,
        operation,
        (0, 1),
        sequence,
        dtype,
        (length,),
        size * length,
        "",
        4,
        float(index),
        peer=peer,
        **more,
    )


def logs(*calls_by_rank):
    made = [RankLog(rank, 0.0) for rank in range(len(calls_by_rank))]
    for log, calls in zip(made, calls_by_rank, strict=True):
        log.calls = list(calls)
    return made


def test_the_kth_send_meets_the_kth_receive_of_its_tag():
    sends = [call(1, "send", 1), call(2, "send", 1, dtype="int64", tag=7)]
    receives = [call(1, "recv", 0, dtype="int64", tag=7), call(2, "recv", 0)]
    assert place_of(0, sends[0]) == place_of(1, receives[1])
    assert place_of(0, sends[1]) == place_of(1, receives[0])
    assert first_misfit(logs(sends, receives)) is None


@pytest.mark.parametrize(
    ("received", "fits"),
    [
        ({}, True),
        ({"length": 4}, True),
        ({"length": 2}, False),
        ({"dtype": "int64"}, False),
        ({"dtype": "int64", "length": 1}, False),
    ],
)
def test_what_arrives_must_have_room_and_its_dtype(received, fits):
    found = mismatch(logs([call(1, "send", 1)], [call(1, "recv", 0, **received)]), "of it")
    assert (found is None) == fits
    if found:
        assert (found.kind, found.cause, found.ranks) == ("mismatch", "what arrives", (0, 1))


def test_a_message_of_nothing_has_no_dtype_to_keep():
    sent = call(1, "send", 1, length=0)
    assert first_misfit(logs([sent], [call(1, "recv", 0, dtype="int64")])) is None


def test_messages_from_anyone_are_not_paired():
    received = [call(1, "recv", ANYONE), call(2, "recv", 0, dtype="int64")]
    assert first_misfit(logs([call(1, "send", 1)], received)) is None


def test_the_first_misfit_is_the_one_that_met_first():
    sends = [call(1, "send", 1, 1, length=9), call(2, "send", 1, 2, length=8)]
    receives = [call(1, "recv", 0, 1), call(2, "recv", 0, 2)]
    place, sent, received = first_misfit(logs(sends, receives))
    assert (place.sequence, sent.shape, received.shape) == (1, (9,), (3,))


@pytest.mark.parametrize(
    ("sent", "lost"),
    [({}, True), ({"waited": 1.0}, False), ({"finished": 1.0}, False), ({"sequence": 2}, False)],
)
def test_a_receive_whose_isend_nobody_waits_for_is_found(sent, lost):
    made = logs([call(1, "send", 1, **sent)], [call(1, "recv", 0, waited=1.0)])
    made[1].waiting = 0
    assert bool(never_waited_for(made[1], made)) == lost
    assert never_waited_for(made[0], made) is None
