"""Messages from whoever speaks first: they arrive, are recorded, and are missed when none comes."""

from dataclasses import replace

import pytest

from hpml.ranks import launch
from hpml.ranks.evidence import ANYONE, Call
from hpml.ranks.parent import diagnose
from hpml.ranks.parent.ledger import RankLog

IMPORTS = "import torch, torch.distributed as dist\n"


def run(body: str, world_size: int, **options):
    """The evidence of `def go():` with this body; its first line is line 3 of the answer."""
    indented = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    answer = f"{IMPORTS}def go():\n{indented}"
    return launch(lambda answer: answer.go(), world_size, answer=answer, **options)


def test_a_receive_without_a_source_says_who_sent():
    evidence = run(
        """
tensor = torch.tensor([float(dist.get_rank())])
if dist.get_rank() > 0:
    for _ in range(5):
        dist.send(tensor, dst=0)
    return None
found = []
for _ in range(10):
    source = dist.recv(tensor)
    found.append([source, int(tensor)])
return found
""",
        3,
    )
    assert evidence.diagnosis is None
    assert all(source == told for source, told in evidence.values[0])
    assert sorted(source for source, _ in evidence.values[0]) == [1] * 5 + [2] * 5
    calls = evidence.ranks[0].calls
    assert [call.detail for call in calls] == ["from anyone"] * 10
    assert all(call.operation == "recv" and call.finished is not None for call in calls)


@pytest.mark.parametrize(
    ("body", "world_size", "says"),
    [
        (
            # One message more than is ever received
            "tensor = torch.zeros(1)\n"
            "for _ in range(3):\n"
            "    dist.send(tensor, dst=0) if dist.get_rank() else dist.recv(tensor)",
            3,
            "in send to 0 (call ",
        ),
        (
            # One receive more than is ever sent
            "tensor = torch.zeros(1)\n"
            "for _ in range(3):\n"
            "    if dist.get_rank() == 0:\n"
            "        dist.recv(tensor)\n"
            "        dist.recv(tensor)\n"
            "    elif dist.get_rank() == 1:\n"
            "        dist.send(tensor, dst=0)",
            3,
            "rank 0 waits in recv from anyone (call 4",
        ),
    ],
)
def test_what_nobody_takes_or_sends_is_found_as_a_hang(body, world_size, says):
    # A timeout far beyond what a diagnosis takes: reaching it would be kind "limit".
    diagnosis = run(body, world_size, timeout=60).diagnosis
    assert diagnosis.kind == "hang"
    assert says in diagnosis.sentence


def log_of(rank: int, *calls: tuple) -> RankLog:
    """A rank that made these calls: operation, peer, when it was complete, and perhaps a tag."""
    log = RankLog(rank, 0.0)
    for index, (operation, peer, finished, *tags) in enumerate(calls, 1):
        sequence = sum((c.operation, c.peer) == (operation, peer) for c in log.calls) + 1
        call = Call(index, operation, (0, 1, 2), sequence, "", (), 0, "", None, 0.0, 0.0, finished)
        log.calls.append(replace(call, peer=peer, tag=sum(tags)))
    log.waiting = len(calls) - 1
    return log


@pytest.mark.parametrize(
    ("waiting", "others", "comes"),
    [
        # (the rank that waits, with its calls), the others' calls, whether it can go on
        ((0, ("recv", ANYONE, None)), {1: [("send", 0, None)]}, True),
        ((0, ("recv", ANYONE, None)), {1: [("send", 2, None)]}, False),
        ((0, ("recv", ANYONE, None)), {1: [("send", 0, None, 3)]}, False),
        (
            (0, ("recv", ANYONE, 1.0), ("recv", ANYONE, None)),
            {1: [("send", 0, 1.0)], 2: [("send", 0, None)]},
            True,
        ),
        (
            (0, ("recv", ANYONE, 1.0), ("recv", ANYONE, None)),
            {1: [("send", 0, 1.0)]},
            False,
        ),
        ((1, ("send", 0, None)), {0: [("recv", ANYONE, None)]}, True),
        (
            (1, ("send", 0, None)),
            {0: [("recv", ANYONE, 1.0)], 2: [("send", 0, 1.0)]},
            False,
        ),
        (
            (0, ("recv", ANYONE, 1.0), ("recv", 1, None)),
            {1: [("send", 0, 1.0)]},
            False,
        ),
        (
            (0, ("recv", ANYONE, 1.0), ("recv", 1, None)),
            {1: [("send", 0, 1.0), ("send", 0, None)]},
            True,
        ),
        ((0, ("recv", 1, None)), {1: [("send", 0, None)]}, True),
        ((0, ("recv", 1, None)), {2: [("send", 0, None)]}, False),
        ((1, ("send", 7, None)), {}, False),
        ((1, ("send", None, None)), {}, False),
        ((1, ("recv", None, None)), {}, False),
    ],
)
def test_messages_from_anyone_are_matched_by_their_number(waiting, others, comes):
    rank, *calls = waiting
    logs = [log_of(r, *(calls if r == rank else others.get(r, []))) for r in range(3)]
    for log in logs:
        log.waiting = log.waiting if log.calls else None
    assert diagnose.can_complete(logs[rank], logs) is comes
