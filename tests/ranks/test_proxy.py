"""With proxies beside the ranks a launch gives what it gives without, and nothing can be forged."""

import contextlib
import errno
import gc
import os
import socket
import stat
import sys
import time
import weakref
from dataclasses import replace
from pathlib import Path

import cloudpickle
import msgpack
import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

from hpml.machine.namespaces import refusal
from hpml.ranks import launch
from hpml.ranks.parent.ledger import RankLog
from hpml.ranks.rank import recorder, remote_group

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # which ranks cannot import
TIMEOUT = 60  # far beyond what a diagnosis takes


def blocking():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    given = torch.arange(6.0).reshape(2, 3) + rank
    said = {}
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT):
        said[str(op)] = given.clone()
        dist.all_reduce(said[str(op)], op)
    said["transposed"] = given.clone().t()
    dist.all_reduce(said["transposed"])
    said["broadcast"] = given.clone()
    dist.broadcast(said["broadcast"], world_size - 1)
    said["reduce"] = given.clone()
    dist.reduce(said["reduce"], 0)
    if rank:
        del said["reduce"]  # what it holds elsewhere is not defined
    said["all_gather"] = [torch.zeros(2, 3) for _ in range(world_size)]
    dist.all_gather(said["all_gather"], given)
    said["into"] = torch.zeros(2 * world_size, 3)
    dist.all_gather_into_tensor(said["into"], given)
    said["gather"] = [torch.zeros(2, 3) for _ in range(world_size)] if rank == 0 else None
    dist.gather(given, said["gather"], dst=0)
    said["scatter"] = torch.zeros(2)
    parts = [torch.full((2,), float(i)) for i in range(world_size)] if rank == 0 else None
    dist.scatter(said["scatter"], parts, src=0)
    said["reduce_scatter"] = torch.zeros(3)
    dist.reduce_scatter(said["reduce_scatter"], [given[0] + i for i in range(world_size)])
    said["reduce_scatter_tensor"] = torch.zeros(3)
    dist.reduce_scatter_tensor(said["reduce_scatter_tensor"], given[0].repeat(world_size))
    said["all_to_all"] = [torch.zeros(1) for _ in range(world_size)]
    dist.all_to_all(said["all_to_all"], [torch.full((1,), rank + i / 8) for i in range(world_size)])
    said["all_to_all_single"] = torch.zeros(world_size)
    dist.all_to_all_single(said["all_to_all_single"], torch.arange(1.0 * world_size) + rank)
    for dtype in (torch.float64, torch.int64, torch.uint8, torch.bfloat16, torch.float16):
        said[str(dtype)] = torch.ones(3, dtype=dtype)
        dist.all_reduce(said[str(dtype)])
    said["bool"] = torch.tensor([rank == 0, False])
    dist.broadcast(said["bool"], 0)
    said["scalar"] = torch.tensor(1.0)
    dist.all_reduce(said["scalar"])
    said["large"] = torch.ones(300_000)
    dist.all_reduce(said["large"])
    dist.barrier()
    dist.monitored_barrier()
    return said


def objects():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    everybodys = [None] * world_size
    dist.all_gather_object(everybodys, {"rank": rank})
    ours = ["a", {"b": 1}] if rank == 0 else [None, None]
    dist.broadcast_object_list(ours, src=0)
    mine = [None]
    dist.scatter_object_list(mine, list(range(world_size)) if rank == 0 else None, src=0)
    gathered = [None] * world_size if rank == 0 else None
    dist.gather_object(rank, gathered)
    return [everybodys, ours, mine, gathered]


def messages():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if world_size == 1:
        return []
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    arrived = [torch.zeros(4) for _ in range(5)]
    handles = [dist.irecv(arrived[0], left, tag=3), dist.isend(torch.full((4,), 1.0), right, tag=3)]
    for handle in handles:
        handle.wait()
    if rank == 0:
        dist.send(torch.full((4,), 7.0), 1)
    elif rank == 1:
        dist.recv(arrived[1], 0)
    batch = [
        dist.P2POp(dist.isend, torch.full((4,), 2.0 + rank), right),
        dist.P2POp(dist.irecv, arrived[2], left),
    ]
    for handle in dist.batch_isend_irecv(batch):
        handle.wait()
    senders = []
    if rank == 0:
        for _ in range(world_size - 1):
            senders.append(dist.recv(arrived[3]))
    else:
        dist.send(torch.full((4,), 1.0 * rank), 0)
    # The second message is asked for first.
    later, sooner = dist.irecv(arrived[4], left, tag=1), dist.irecv(arrived[0], left, tag=2)
    dist.send(torch.full((4,), 9.0), right, tag=2)
    sooner.wait()
    dist.send(torch.full((4,), 8.0), right, tag=1)
    later.wait()
    return [arrived[:3], arrived[4], sorted(senders)]


def handles():
    rank = dist.get_rank()
    total = torch.tensor([1.0 + rank])
    work = dist.all_reduce(total, async_op=True)
    while not work.is_completed():
        continue
    assert work.is_success()
    doubled = torch.tensor([1.0])
    future = dist.all_reduce(doubled, async_op=True).get_future()
    twice = future.then(lambda done: 2 * done.value()[0]).wait()

    def another(done):  # waits itself, on a thread of the futures
        more = done.value()[0].clone()
        dist.all_reduce(more)
        return more

    again = dist.all_reduce(torch.tensor([1.0]), async_op=True).get_future().then(another).wait()
    return [total, doubled, twice, again, work.result()]


def groups():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    said = []
    for size in range(1, world_size + 1):
        group = dist.new_group(list(range(size)))
        if rank < size:
            said.append(torch.ones(1))
            dist.all_reduce(said[-1], group=group)
    alone, _ = dist.new_subgroups_by_enumeration([[r] for r in range(world_size)])
    dist.all_reduce(torch.ones(1), group=alone)
    back = dist.new_group(list(reversed(range(world_size))))
    dist.broadcast(one := torch.tensor([rank]), 0, group=back)
    names = [dist.get_backend(), dist.get_backend(group), dist.get_rank(back)]
    return [said, one, names, dist.get_process_group_ranks(back)]


def from_cpp():
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DistributedDataParallel(torch.nn.Linear(4, 4), bucket_cap_mb=1e-5)
    model(torch.ones(2, 4) * rank).square().sum().backward()
    weights = [*model.module.parameters()]
    world = dist.group.WORLD
    given = torch.ones(4) * rank
    return [
        [weight.detach() for weight in weights],
        [weight.grad for weight in weights],
        functional.all_reduce(given, "sum", world) + 0,
        functional.all_gather_tensor(given, 0, world) + 0,
        functional.reduce_scatter_tensor(given.repeat(dist.get_world_size()), "sum", 0, world) + 0,
        functional.broadcast(given, 0, world) + 0,
    ]


@torch.inference_mode()
def in_inference_mode():
    rank, world_size = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([1.0, rank])
    dist.all_reduce(total)
    everybodys = [torch.zeros(2) for _ in range(world_size)]
    dist.all_gather(everybodys, total[:2] + rank)
    later = torch.ones(3) * rank
    dist.broadcast(later, 0, async_op=True).wait()
    return [total, everybodys, later]


def in_order(evidence):
    """What each rank did, and in what order its calls of each group and to each peer came.

    Left out is which of two threads made a call, and waits: those of C++ are only seen by a proxy.
    """
    return [
        sorted(
            (
                replace(call, index=0, line=0, issued=0, waited=0, finished=call.finished is None)
                for call in rank.calls
            ),
            key=lambda call: (call.group, call.operation, call.detail, call.sequence),
        )
        for rank in evidence.ranks
    ]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize(
    "drive", [blocking, objects, messages, handles, groups, from_cpp, in_inference_mode]
)
def test_ranks_with_proxies_compute_and_record_what_others_do(drive, world_size):
    plain = launch(drive, world_size, timeout=TIMEOUT)
    proxied = launch(drive, world_size, timeout=TIMEOUT, proxied=True)
    assert plain.diagnosis is None, plain.diagnosis
    assert proxied.diagnosis is None, proxied.diagnosis
    assert repr(proxied.values) == repr(plain.values)
    assert in_order(proxied) == in_order(plain)


def test_a_call_has_its_line_and_when_the_rank_began_to_wait():
    answer = (
        "import time, torch, torch.distributed as dist\n"
        "def go():\n"
        "    handle = dist.all_reduce(torch.ones(1), async_op=True)\n"
        "    unnoticed = dist.all_reduce(torch.ones(1), async_op=True)\n"
        "    time.sleep(0.01)\n"
        "    handle.wait()\n"
    )
    evidence = launch(lambda answer: answer.go(), 2, answer=answer, proxied=True)
    for rank in evidence.ranks:
        waited, unnoticed = rank.calls
        assert (waited.line, unnoticed.line) == (3, 4)
        assert waited.issued <= unnoticed.issued <= waited.waited <= waited.finished
        assert unnoticed.finished is None


ONE = {"tensor": 0}
FORGERIES = {
    "a call": ["call", 1, "all_reduce", [0, 1], 1, "float32", [3], 12, "sum", 3, 0.0],
    "the end of a call": ["done", 0, 0.0],
    "nothing known": ["no such event"],
    "a call of a group that is none": ["collective", 2, 99, "allreduce", 3, b""],
    "a call of something else": ["collective", 2, 1, "shutdown", 3, b"\x93\x90\x90\x90"],
    "a call out of order": ["collective", 7, 1, "barrier", 3, b"\x93\x90\x90\x90"],
    "arguments that are none": ["collective", 2, 1, "allreduce", 3, b"\xc1"],
    "a tensor elsewhere": [
        *("collective", 2, 1, "allreduce", 3),
        msgpack.packb([[[{"tensor": 0}]], [], [["torch.float32", [3], -64]]]),
    ],
    "a tensor that is too large": [
        *("collective", 2, 1, "allreduce", 3),
        msgpack.packb([[[{"tensor": 0}]], [], [["torch.float32", [2**40], 0]]]),
    ],
    "split sizes in shared memory": [
        *("collective", 2, 1, "alltoall_base", 3),
        msgpack.packb([[ONE, ONE, ONE, ONE], [], [["torch.int64", [2], 0]]]),
    ],
    "split sizes that are no numbers": [
        *("collective", 2, 1, "alltoall_base", 3),
        msgpack.packb([[ONE, ONE, [ONE, ONE], []], [], [["torch.int64", [2], 0]]]),
    ],
    "a group of strangers": ["group", 2, "name", [0, 7], False, 1.0, 3],
    "a wait for no call": ["await", 9],
    "too few fields": ["collective", 2],
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_only_another_program_would_send_ends_the_rank(name):
    event = FORGERIES[name]

    def drive():
        if dist.get_rank() == 1:
            remote_group._connection._send(event)
        dist.barrier()

    evidence = launch(drive, 2, timeout=TIMEOUT, proxied=True)
    assert evidence.diagnosis.kind == "refused"
    assert evidence.diagnosis.ranks == (1,)
    assert "not a report of a rank" in evidence.diagnosis.sentence
    assert len(evidence.ranks[1].calls) == 0


@pytest.mark.parametrize("method", ["all_to_all_single", "alltoall_base"])
@pytest.mark.parametrize("sizes", [([], [3, -1]), ([-(2**40), 2**40 + 2], [1, 1])], ids=str)
def test_split_sizes_beyond_the_tensor_are_the_calls_error(sizes, method):
    def drive():
        call = getattr(dist.group.WORLD, method)
        try:
            call(torch.zeros(2), torch.ones(2), *sizes).wait()
        except RuntimeError as error:
            return str(error)

    evidence = launch(drive, 2, timeout=TIMEOUT, proxied=True)
    assert evidence.values == ("a split size is negative or beyond the tensor",) * 2


def test_what_records_cannot_be_taken_away():
    def drive():
        recorder._recorder = None
        recorder.Recorder.enter = lambda *_, **__: 1
        remote_group.Connection.notice = lambda *_, **__: None
        dist.all_reduce(torch.ones(3))

    evidence = launch(drive, 2, proxied=True)
    assert [c.operation for rank in evidence.ranks for c in rank.calls] == ["all_reduce"] * 2


@pytest.mark.parametrize("default", [False, None])
def test_the_first_call_cannot_take_the_place_of_the_engines(default):
    answer = (
        "from hpml.ranks.rank import remote_group\n"
        "connection = remote_group.Connection\n"
        "group = connection.group\n"
        "connection.group = lambda self, name, ranks, default, timeout: group(\n"
        f"    self, name, ranks, {default}, timeout)\n"
    )

    def drive(_answer):
        dist.all_reduce(torch.ones(3))

    evidence = launch(drive, 2, timeout=TIMEOUT, answer=answer, proxied=True)
    assert evidence.diagnosis.kind == "refused"
    assert "not a report of a rank" in evidence.diagnosis.sentence


def test_only_a_meeting_is_left_out_of_the_evidence():
    log = RankLog(0, started=0.0)
    for index, operation in enumerate(["init_process_group", "all_reduce"]):
        log.take(["call", index, operation, [0, 1], 1, "", [], 0, "", None, 0.0], 0.0)
    assert [call.operation for call in log.evidence(1.0).calls] == ["all_reduce"]
    log = RankLog(0, started=0.0)
    log.take(["call", 0, "all_reduce", [0, 1], 1, "", [], 0, "", None, 0.0], 0.0)
    assert [call.operation for call in log.evidence(1.0).calls] == ["all_reduce"]


def test_a_mark_has_no_time_before_what_the_rank_sent_earlier_and_none_after_its_arrival():
    def drive():
        dist.all_reduce(torch.ones(1))
        for at in (0.0, time.monotonic() + 1000):
            remote_group._connection._send(["mark", "moved", at])
        dist.all_reduce(torch.ones(1))

    (rank,) = launch(drive, 1, proxied=True).ranks
    for mark in rank.marks:
        assert rank.calls[0].issued <= mark.at <= rank.calls[1].issued


def test_the_rank_itself_has_no_network_and_no_place_to_meet():
    def drive():
        lines = Path("/proc/net/dev").read_text().splitlines()[2:]
        interfaces = [line.split(":")[0].strip() for line in lines]
        sockets = 0
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                sockets += stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode)
        try:
            socket.create_connection(("10.77.0.1", 1), timeout=0.2)
        except OSError as error:
            why = error.errno
        return [interfaces, sockets, why]

    if why := refusal("user", "net"):
        pytest.skip(why)
    evidence = launch(drive, 2, link="1gbit", proxied=True)
    for interfaces, sockets, why in evidence.values:
        assert interfaces == ["lo"]
        assert sockets == 2  # to its proxy, and from it
        assert why == errno.ENETUNREACH


def test_traffic_on_links_is_that_of_the_proxies():
    def drive():
        dist.all_reduce(torch.ones(500_000))

    plain, proxied = (
        launch(drive, 2, link="1gbit", proxied=proxied).ranks[1] for proxied in (False, True)
    )
    if plain.traffic is None:
        pytest.skip("this machine cannot emulate a network")
    assert proxied.traffic.sent_bytes == pytest.approx(plain.traffic.sent_bytes, rel=0.1)


def test_a_result_that_cannot_be_copied_is_an_error_of_that_call_alone():
    def drive():
        with contextlib.suppress(RuntimeError):
            dist.all_reduce(torch.ones(1).expand(4))
            raise AssertionError("an expanded tensor was filled")
        total = torch.ones(1)
        dist.all_reduce(total)
        return total.item()

    evidence = launch(drive, 2, timeout=TIMEOUT, proxied=True)
    assert evidence.diagnosis is None, evidence.diagnosis
    assert evidence.values == (2.0, 2.0)


def test_a_message_that_is_too_long_for_its_receiver_is_named_as_it_is_without():
    def drive():
        if dist.get_rank() == 0:
            dist.send(torch.ones(8), 1)
        else:
            dist.recv(torch.ones(2), 0)
        dist.barrier()

    plain, proxied = (launch(drive, 2, proxied=proxied) for proxied in (False, True))
    assert plain.diagnosis.kind == proxied.diagnosis.kind == "mismatch"
    assert proxied.diagnosis.sentence == plain.diagnosis.sentence


def test_a_calls_tensors_are_gone_when_it_is_over():
    def drive():
        gc.collect()
        gc.disable()
        flat, own = torch.empty(2000), torch.ones(1000)
        gone = [weakref.ref(flat), weakref.ref(own)]
        dist.all_gather_into_tensor(flat, own)
        del flat, own
        dist.barrier()  # the thread that takes in the ends of calls holds the last one
        return [one() is None for one in gone]

    assert launch(drive, 2, proxied=True).values == ([True, True],) * 2
