"""What PyTorch builds on its collectives runs in a launch as under torchrun, and is all recorded:
FSDP, tensor parallelism, redistribution on a mesh, ZeRO, pipelines, sharded checkpoints."""

import pytest

from hpml.ranks import launch
from hpml.ranks.parent.wire import sent_bytes

from .plain import PROGRAMS, plain

SOURCE = (PROGRAMS / "libraries.py").read_text()
RANKS = 4
# Bytes in each packet that are no tensor's: the headers of Ethernet, IP and TCP are 66, and a
# message of Gloo's begins with some 40. A packet that only acknowledges has 66.
PER_PACKET = 110
TO_MEET = 5_000  # bytes that a rank sends besides, for connections and barriers


WAYS = {
    "no link": {},
    "1gbit": {"link": "1gbit"},
    "proxied": {"proxied": True},
}


@pytest.fixture(scope="module", params=WAYS)
def launched(request):
    def drive(program):
        from hpml.ranks import mark

        return program.go(mark)

    evidence = launch(drive, RANKS, answer=SOURCE, timeout=120, **WAYS[request.param])
    assert evidence.diagnosis is None
    if evidence.no_link:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    return evidence


@pytest.fixture(scope="module")
def without():
    return plain("libraries", RANKS)


def test_all_give_what_they_give_under_torchrun(launched, without):
    for here, there in zip(launched.values, without, strict=True):
        for name in there:
            assert str(here[name]) == str(there[name]), name


def test_all_are_in_the_ledger(launched):
    for rank in launched.ranks:
        for mark, after in zip(rank.marks, rank.marks[1:], strict=False):
            calls = [call for call in rank.calls if mark.at <= call.issued < after.at]
            assert sum(call.nbytes for call in calls) > 1000, mark.name
            assert all(call.finished is not None for call in calls), mark.name


@pytest.mark.parametrize("launched", ["1gbit"], indirect=True)
def test_the_ledgers_bytes_are_those_that_the_kernel_counted(launched):
    for rank in launched.ranks:
        recorded = sum(sent_bytes(call, rank.rank) for call in rank.calls)
        besides = rank.traffic.sent_bytes - recorded
        assert 0 <= besides <= PER_PACKET * rank.traffic.sent_packets + TO_MEET


STAYS_AWAY = {
    "fully_shard": """
    from torch.distributed.fsdp import fully_shard
    net = fully_shard(torch.nn.Linear(8, 8))
    if dist.get_rank() == 1:
        return
    net(torch.ones(2, 8))
""",
    "redistribute": """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    mesh = init_device_mesh("cpu", (2,))
    tensor = DTensor.from_local(torch.ones(4), mesh, [Shard(0)], run_check=False)
    if dist.get_rank() == 1:
        return
    tensor.redistribute(mesh, [Replicate()]).to_local() + 1
""",
}


@pytest.mark.parametrize("body", STAYS_AWAY.values(), ids=STAYS_AWAY)
def test_a_rank_that_stays_away_is_named(body):
    answer = f"import torch, torch.distributed as dist\ndef go():{body}"
    diagnosis = launch(lambda answer: answer.go(), 2, answer=answer).diagnosis
    assert (diagnosis.kind, diagnosis.ranks) == ("hang", (1,))
    line = len(answer.splitlines())
    assert diagnosis.sentence.startswith("rank 0 waits in all_gather_into_tensor")
    assert f"line {line} of your answer); rank 1 has " in diagnosis.sentence
    assert diagnosis.sentence.endswith("and returned")
