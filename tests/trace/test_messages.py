"""Messages: each send meets its receive, in order, by sender, receiver, tag and group."""

import pytest
import torch
import torch.distributed as dist

from hpml.ranks import launch
from hpml.ranks.evidence import ANYONE, Call, Evidence, RankEvidence
from hpml.trace.messages import messages


def call(operation, sequence, peer, issued, finished, nbytes=8, group=(0, 1, 2), tag=0):
    return Call(
        sequence, operation, group, sequence, "float32", (2,), nbytes, "", 1, issued, issued,
        finished, peer=peer, tag=tag,
    )  # fmt: skip


def evidence(*ranks):
    rows = [RankEvidence(number, "returned", calls=tuple(row)) for number, row in enumerate(ranks)]
    return Evidence(len(rows), tuple(rows), 1.0)


def brief(found):
    return [(m.sender, m.receiver, m.tag, m.sent, m.received) for m in found]


def test_sends_meet_receives_in_order_whatever_came_between():
    ranks = evidence(
        [
            call("send", 1, 1, 0.0, 0.1),
            call("send", 1, 2, 0.2, 0.3),
            call("send", 2, 1, 0.4, 0.5),
        ],
        [call("recv", 1, 0, 0.0, 0.15), call("recv", 2, 0, 0.0, 0.55)],
        [call("recv", 1, 0, 0.0, 0.35)],
    )
    assert brief(messages(ranks)) == [
        (0, 1, 0, 0.0, 0.15),
        (0, 2, 0, 0.2, 0.35),
        (0, 1, 0, 0.4, 0.55),
    ]


def test_tags_and_groups_keep_messages_apart():
    ranks = evidence(
        [
            call("send", 1, 1, 0.0, 0.1, tag=7),
            call("send", 1, 1, 0.2, 0.3),
            call("send", 1, 1, 0.4, 0.5, group=(0, 1)),
        ],
        [
            call("recv", 1, 0, 0.0, 0.35),
            call("recv", 1, 0, 0.0, 0.15, tag=7),
            call("recv", 1, 0, 0.0, 0.55, group=(0, 1)),
        ],
    )
    assert brief(messages(ranks)) == [
        (0, 1, 7, 0.0, 0.15),
        (0, 1, 0, 0.2, 0.35),
        (0, 1, 0, 0.4, 0.55),
    ]


def test_what_nobody_received_has_no_arrival():
    sent = call("send", 1, 1, 0.0, None)
    assert brief(messages(evidence([sent], []))) == [(0, 1, 0, 0.0, None)]
    waits = call("recv", 1, 0, 0.0, None)
    assert brief(messages(evidence([sent], [waits]))) == [(0, 1, 0, 0.0, None)]


def test_the_bytes_are_the_senders():
    ranks = evidence(
        [call("send", 1, 1, 0.0, 0.1, nbytes=8)],
        [call("recv", 1, 0, 0.0, 0.1, nbytes=80)],
    )
    assert [message.nbytes for message in messages(ranks)] == [8]


def test_a_receive_from_anyone_is_refused_with_a_remedy():
    ranks = evidence([call("recv", 1, ANYONE, 0.0, 0.1)], [])
    with pytest.raises(ValueError, match=r"rank 0, call 1: .* name the sender"):
        messages(ranks)


def test_a_round_of_real_ranks_is_read_from_their_ledgers():
    def drive():
        rank, world_size = dist.get_rank(), dist.get_world_size()
        token = torch.zeros(3)
        for tag in (0, 5):
            coming = dist.irecv(token, (rank - 1) % world_size, tag=tag)
            dist.send(torch.ones(3), (rank + 1) % world_size, tag=tag)
            coming.wait()
        dist.barrier()

    ran = launch(drive, 3)
    assert ran.diagnosis is None
    found = messages(ran)
    assert sorted((m.sender, m.receiver, m.tag) for m in found) == [
        (rank, (rank + 1) % 3, tag) for rank in range(3) for tag in (0, 5)
    ]
    assert all(m.nbytes == 12 and m.sent < m.received for m in found)
