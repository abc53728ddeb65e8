"""What the ledger says was sent is what the kernel counted, call by call, with Horovod too."""

import sys
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest
import torch
import torch.distributed as dist

from hpml.checks import chatter
from hpml.ranks import flavour, launch
from hpml.ranks.evidence import Call
from hpml.ranks.parent.wire import sent_bytes

cloudpickle.register_pickle_by_value(sys.modules[__name__])

ELEMENTS = 120_000  # of 4 bytes, for each rank; divides by all world sizes
OVERHEAD = 0.05  # headers, of what is sent and, for acknowledgements, of what is received
MESSAGES = 3_000  # bytes of messages without tensors, such as a barrier's


def sent_during(
    kinds: dict[str, Callable[[], object]], barrier: Callable[[], object]
) -> dict[str, int]:
    """By name, the bytes that left this rank's interface until the call was done on all ranks."""

    def counted() -> int:
        lines = Path("/proc/net/dev").read_text().splitlines()[2:]
        return sum(int(line.split()[9]) for line in lines if not line.strip().startswith("lo:"))

    sent = {}
    for name, call in kinds.items():
        barrier()
        before = counted()
        call()
        barrier()
        sent[name] = counted() - before
    return sent


def calls_of_every_kind() -> dict[str, int]:
    """By name, the bytes that left this rank's interface during each."""
    import torch.distributed._functional_collectives as functional

    world, rank = dist.get_world_size(), dist.get_rank()
    mine, part = torch.ones(ELEMENTS), torch.empty(ELEMENTS // world)
    parts = [torch.ones_like(part) for _ in range(world)]
    all_of_them = [torch.empty(ELEMENTS) for _ in range(world)]
    last = world - 1
    rows = [ELEMENTS, *[0] * last] if world < 3 else [ELEMENTS // 2, 0, ELEMENTS // 2, 0][:world]
    kinds = {
        "all_reduce": lambda: dist.all_reduce(mine),
        "all_reduce_coalesced": lambda: dist.group.WORLD.allreduce_coalesced([mine, part]).wait(),
        "broadcast": lambda: dist.broadcast(mine, last),
        "reduce": lambda: dist.reduce(mine, last),
        "all_gather": lambda: dist.all_gather(all_of_them, mine),
        "all_gather_into_tensor": lambda: dist.all_gather_single(torch.cat(all_of_them), mine),
        "all_gather_into_tensor_coalesced": lambda: functional.wait_tensor(
            functional.all_gather_single(mine, 0, dist.group.WORLD)
        ),
        "gather": lambda: dist.gather(mine, all_of_them if rank == last else None, last),
        "scatter": lambda: dist.scatter(mine, all_of_them if rank == last else None, last),
        "reduce_scatter": lambda: dist.reduce_scatter(part, parts),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_single(part, mine),
        "all_to_all": lambda: dist.all_to_all([torch.empty_like(part) for _ in parts], parts),
        "all_to_all_single": lambda: dist.all_to_all_single(torch.empty_like(mine), mine),
        "unequal all_to_all_single": lambda: dist.all_to_all_single(
            torch.empty(world * rows[rank]), mine, [rows[rank]] * world, rows
        ),
        "send": lambda: dist.send(mine, 1) if rank == 0 else dist.recv(mine) if rank == 1 else 0,
    }
    return sent_during(kinds, dist.barrier)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_each_call_sends_what_the_ledger_says(world_size):
    evidence = launch(calls_of_every_kind, world_size, link="1gbit")
    assert evidence.diagnosis is None
    if evidence.link is None:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    for rank, counted in zip(evidence.ranks, evidence.values, strict=True):
        calls = [call for call in rank.calls if call.operation not in ("barrier", "recv")]
        for call, (kind, left) in zip(calls, counted.items(), strict=False):
            assert kind.endswith(call.operation)
            said, passed = sent_bytes(call, rank.rank), world_size * call.nbytes
            assert said <= left <= said + OVERHEAD * passed + MESSAGES, (kind, call)
        assert len(calls) == len(counted) - (rank.rank > 0)  # which do not send


def horovods_calls() -> dict[str, int]:
    """By name, the bytes that left this rank's interface during each, and until all were done."""
    import horovod.torch as hvd

    mine, parts = torch.ones(ELEMENTS), [torch.ones(ELEMENTS // 2), torch.ones(ELEMENTS // 2)]
    kinds = {
        "allreduce": lambda: hvd.allreduce(mine),
        "grouped_allreduce": lambda: hvd.grouped_allreduce(parts),
        "broadcast": lambda: hvd.broadcast(mine, hvd.size() - 1),
        "allgather": lambda: hvd.allgather(mine),
        "alltoall": lambda: hvd.alltoall(mine),
    }
    return sent_during(kinds, hvd.barrier)


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_each_call_of_horovods_sends_what_the_ledger_says(world_size):
    if why := flavour.missing("horovod"):
        pytest.skip(why)
    evidence = launch(
        horovods_calls,
        world_size,
        flavour="horovod",
        link="1gbit",
        environment=lambda _: chatter.ENVIRONMENT,
    )
    assert evidence.diagnosis is None
    if evidence.link is None:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    for rank, counted in zip(evidence.ranks, evidence.values, strict=True):
        calls = [call for call in rank.calls if call.operation != "barrier"]
        assert {call.operation for call in calls} == {*counted}
        for call in calls:
            said, passed = sent_bytes(call, rank.rank), world_size * call.nbytes
            beside = OVERHEAD * passed + MESSAGES * world_size + chatter.chatter(evidence)
            assert said <= counted[call.operation] <= said + beside, call


def a_call(operation: str, group: tuple[int, ...], root: int | None = None) -> Call:
    return Call(1, operation, group, 1, "float32", (25,), 100, "", None, 0.0, root=root)


def test_a_group_of_one_sends_nothing():
    for operation in ("all_reduce", "all_gather", "broadcast", "send"):
        assert sent_bytes(a_call(operation, (2,), 2), 2) == 0


def test_a_broadcast_goes_down_a_tree_in_the_groups_order_of_ranks():
    call = a_call("broadcast", (1, 3, 5, 7), 3)
    assert [sent_bytes(call, rank) for rank in call.group] == [0, 200, 100, 0]
