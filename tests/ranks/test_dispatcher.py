"""What the ledger does not know raises instead of passing by; and handles say what they did."""

import pytest
import torch
import torch.distributed as dist

from hpml.ranks import launch


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: dist.all_reduce(torch.ones(2)), "c10d::allreduce_"),
        (
            lambda: torch.distributed._functional_collectives.all_reduce(
                torch.ones(2), "sum", dist.group.WORLD
            ),
            "c10d::allreduce_",
        ),
        (
            lambda: dist.group.WORLD._get_backend(torch.device("cpu")).novel(),
            "ProcessGroupGloo.novel",
        ),
    ],
    ids=["from Python", "from C++", "a backend's method"],
)
def test_a_way_that_nobody_knows_raises_with_its_name(call, name):
    def drive():
        import torch.distributed._functional_collectives as functional
        from torch._C._distributed_c10d import Backend

        from hpml.ranks.rank import dispatcher

        # As if a newer PyTorch had them
        assert functional
        for operator in [*dispatcher.OPERATIONS]:
            del dispatcher.OPERATIONS[operator]
        Backend.novel = dispatcher._through_dispatcher("novel", lambda self: None)
        call()

    evidence = launch(drive, 2)
    assert evidence.diagnosis.kind == "raised"
    for rank in evidence.ranks:
        assert rank.raised.kind == "NotRecorded"
        assert rank.raised.message.startswith(f"{name} cannot be recorded in a launch")
        assert rank.calls == ()


@pytest.mark.parametrize(
    ("call", "rank", "message"),
    [
        (
            lambda rank: dist.send(torch.ones(2), rank - 1),
            0,
            "send to rank -1: there is no such rank, they are 0 to 1; rank 0 has nobody before it",
        ),
        (
            lambda rank: dist.irecv(torch.ones(2), rank + 1).wait(),
            1,
            "recv from rank 2: there is no such rank, they are 0 to 1; the last rank has nobody "
            "after it",
        ),
        (
            lambda rank: dist.group.WORLD.broadcast(torch.ones(2), root=7 + rank).wait(),
            0,
            "broadcast with root rank 7: there is no such rank, they are 0 to 1",
        ),
    ],
    ids=["before the first", "after the last", "root"],
)
def test_a_rank_that_is_not_there_is_named_at_once(call, rank, message):
    evidence = launch(lambda: call(dist.get_rank()), 2, timeout=20.0)
    assert evidence.diagnosis.kind == "raised"
    raised = evidence.ranks[rank].raised
    assert (raised.kind, raised.message) == ("NoSuchRank", message)


def test_a_call_is_complete_when_the_rank_notices():
    def drive():
        import time

        first = dist.all_reduce(torch.ones(2), async_op=True)
        second = dist.all_reduce(torch.ones(2), async_op=True)
        third = dist.all_reduce(torch.ones(2), async_op=True)
        fourth = dist.all_reduce(torch.ones(2), async_op=True)
        dist.barrier()
        first.wait()
        while not second.is_completed():
            time.sleep(0.001)
        third.get_future().wait()
        return fourth.is_success()  # nobody asked whether it was complete

    evidence = launch(drive, 2)
    for rank in evidence.ranks:
        barrier = next(call for call in rank.calls if call.operation == "barrier")
        *noticed, last = [call for call in rank.calls if call.operation == "all_reduce"]
        assert all(call.finished >= barrier.finished for call in noticed)
        assert [call.waited is None for call in noticed] == [False, True, True]
        assert last.finished is None


def test_groups_have_their_members_also_once_they_were_split():
    def drive():
        pair, rank = dist.new_group([1, 2], backend="cpu:gloo"), dist.get_rank()
        if rank:
            alone = pair.split_group([rank - 1], group_name=f"only {rank}")
            both = pair.split_group([0, 1], group_name="both")
            for group in (alone, both, pair):
                group.allreduce([torch.ones(1)]).wait()

    evidence = launch(drive, 3)
    assert evidence.diagnosis is None
    for rank in evidence.ranks[1:]:
        assert [call.group for call in rank.calls] == [(rank.rank,), (1, 2), (1, 2)]
