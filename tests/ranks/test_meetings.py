"""Whether what ranks ask for where they are to meet goes together, and how it is told."""

from dataclasses import replace

import pytest

from hpml.ranks.parent import meetings
from hpml.ranks.parent.diagnose import can_complete, hang
from hpml.ranks.parent.ledger import RankLog


def joins(rank, *, number=None, size=2, machine="here", port="1", made="init_process_group"):
    """A rank that waits where it is to meet the others."""
    log = RankLog(rank, 0.0, begun=True)
    number = rank if number is None else number
    call = ["call", 1, made, [*range(size)], 1, "", [], 0, "", 4, 0.0, "", 0, None, None, 0]
    log.take([*call, number, size, f"host:{port}", machine, port], 0.0)
    log.take(["wait", 1, 0.0], 0.0)
    return log


@pytest.mark.parametrize(
    ("other", "meet"),
    [
        ({}, True),
        ({"machine": ""}, True),  # it may lead there
        ({"machine": "there"}, False),
        ({"port": "2"}, False),
        ({"size": 3}, False),
        ({"number": 0}, False),
        ({"number": 2}, False),
    ],
)
def test_ranks_meet_where_they_ask_for_one_place_and_one_size_as_two_ranks(other, meet):
    logs = [joins(0), joins(1, **other)]
    assert [can_complete(log, logs) for log in logs] == [meet, meet]


def test_who_has_not_come_yet_is_missing_and_who_has_met_is_not():
    one, other = joins(0), joins(1)
    assert not can_complete(one, [one, RankLog(1, 0.0)])
    other.take(["done", 1, 0.1], 0.1)
    assert can_complete(one, [one, other])


def test_stores_meet_where_one_of_them_is_the_master():
    master, *others = (joins(rank, made="TCPStore", size=3) for rank in range(3))
    for log in others:
        log.calls[0] = replace(log.calls[0], meets=replace(log.calls[0].meets, rank=None))
    assert can_complete(master, [master, *others])
    assert not can_complete(master, [master, others[0]])
    assert not can_complete(others[0], [others[0], others[1], joins(0, made="TCPStore", port="2")])


def test_a_rank_that_has_met_others_than_those_who_wait_is_told_too():
    """Gloo lets rank 0 of 2 go on when rank 1 of 3 has come."""
    logs = [joins(0), joins(1, size=3)]
    logs[0].take(["done", 1, 0.1], 0.1)
    assert not meetings.apart(logs)  # it is at work
    logs[0].take(["exit", 0, None], 0.2)
    found = hang(logs, "of your answer")
    assert found.cause == "apart"
    assert found.sentence == (
        "rank 1 waits for 3 ranks at host:1 in init_process_group (line 4 of your answer); rank 0 "
        "asked for 2 ranks at host:1; all have come, and do not meet; rank 0 has left through "
        "init_process_group (line 4 of your answer) and ended"
    )


def test_who_comes_a_second_time_waits_for_who_does_not():
    logs = [joins(0), joins(1)]
    for log in logs:
        log.take(["done", 1, 0.1], 0.1)
    logs[0].take(["exit", 0, None], 0.2)
    call = ["call", 2, "init_process_group", [0, 1], 2, "", [], 0, "", 5, 0.3, "", 0, None, None, 0]
    logs[1].take([*call, 1, 2, "host:1", "here", "1"], 0.3)
    logs[1].take(["wait", 2, 0.3], 0.3)
    assert not can_complete(logs[1], logs)
    assert hang(logs, "").cause == ""
