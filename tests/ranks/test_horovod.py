"""Ranks that talk through Horovod: the same launches, records and diagnoses as torch's own."""

import json
import os
import sys

import cloudpickle
import pytest
import torch

from hpml.errors import UserError
from hpml.ranks import flavour, launch
from hpml.ranks.parent.watch import QUIET

WHY = flavour.missing("horovod")
pytestmark = [
    pytest.mark.skipif(WHY is not None, reason=str(WHY)),
    pytest.mark.xdist_group("horovod"),  # one warm server
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])

IMPORTS = "import os, queue, signal, time, torch, horovod.torch as hvd\n"


def run(body: str, world_size: int = 2, **options):
    """The evidence of `def go():` with this body; its first line is line 3 of the answer."""
    indented = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    answer = f"{IMPORTS}def go():\n{indented}"
    options = {"flavour": "horovod", "timeout": 20, **options}
    return launch(lambda answer: answer.go(), world_size, answer=answer, **options)


def test_ranks_that_do_not_meet_are_told_what_each_asked_for():
    body = "os.environ['HOROVOD_SIZE'] = '4'\nhvd.init()"
    found = run(body, process_group=False).diagnosis
    assert (found.kind, found.cause) == ("hang", "apart")
    assert found.sentence.startswith("ranks 0 and 1 wait for 4 ranks at 127.0.0.1:")
    assert found.sentence.endswith("hvd.init (line 4 of your answer); there are 2 ranks in all")


def everything(rank):
    """One of each operation, and a training step; what came out, and the environment."""
    import horovod.torch as hvd

    hvd.init()  # once more does nothing
    size = hvd.size()
    reduced = hvd.allreduce(torch.full((3,), float(rank)), name="x", op=hvd.Sum)
    gathered = hvd.allgather(torch.full((rank + 1,), rank), name="y")
    given = hvd.broadcast(torch.tensor([rank]), size - 1, name="z")
    hvd.barrier()
    model = torch.nn.Linear(2, 1)
    model.load_state_dict({"weight": torch.full((1, 2), float(rank)), "bias": torch.zeros(1)})
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    model(torch.full((1, 2), rank + 1.0)).sum().backward()
    optimizer.step()
    whose = [hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()]
    own = {name: value for name, value in os.environ.items() if "RANK" in name}
    return [reduced, gathered, given, model.weight, whose, own]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_ranks_talk_through_horovod(world_size):
    ranks = range(world_size)
    evidence = launch(everything, world_size, inputs=[*ranks], flavour="horovod", timeout=30)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    for rank, (reduced, gathered, given, weight, whose, own) in enumerate(evidence.values):
        assert reduced.tolist() == [sum(ranks)] * 3
        assert gathered.tolist() == [r for r in ranks for _ in range(r + 1)]
        assert given.tolist() == [world_size - 1]
        mean = sum(r + 1.0 for r in ranks) / world_size
        torch.testing.assert_close(weight, torch.full((1, 2), -mean))
        assert whose == [rank, rank, world_size, 0, 1]
        assert own["HOROVOD_RANK"] == str(rank)
        assert not {"RANK", "LOCAL_RANK"} & own.keys()
    calls = evidence.ranks[-1].calls
    assert [(call.operation, call.tensor, call.detail) for call in calls[:4]] == [
        ("allreduce", "allreduce.x", "sum"),
        ("allgather", "allgather.y", ""),
        ("broadcast", "broadcast.z", f"from {world_size - 1}"),
        ("barrier", "barrier.noname", ""),
    ]
    assert [call.index for call in calls] == list(range(1, len(calls) + 1))
    assert all(call.issued <= call.waited <= call.finished for call in calls)
    # DistributedOptimizer has nothing to do on one rank.
    hooked = {call.tensor: call.nbytes for call in calls if call.operation == "allreduce"}
    gradients = {"allreduce.weight": 8, "allreduce.bias": 4} if world_size > 1 else {}
    assert hooked == {"allreduce.x": 12, **gradients}


def test_names_and_settings_are_horovods_own(tmp_path):
    """As Horovod's timeline has them, which is asked for through the environment."""
    timeline = tmp_path / "timeline.json"
    evidence = run(
        "hvd.allreduce(torch.ones(3))\n"
        "hvd.allreduce(torch.ones(3), name='named')\n"
        "hvd.grouped_allreduce([torch.ones(2), torch.ones(3)], name='both')\n"
        "hvd.reducescatter(torch.ones(2))\n"
        "hvd.alltoall(torch.ones(2))\n"
        # What is not written yet when Horovod shuts down is lost: all of this one, at times.
        "hvd.allreduce(torch.ones(1), name='last')\n"
        "time.sleep(0.2)\n"
        "hvd.shutdown()",
        environment=lambda rank: {"HOROVOD_TIMELINE": str(timeline)},
    )
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    text = timeline.read_text().rstrip().rstrip(",").removesuffix("]")
    events = json.loads(text + "]")
    theirs = {e["args"].get("name") for e in events if e.get("name") == "process_name"}
    ours = {call.tensor for call in evidence.ranks[0].calls}
    assert ours - theirs - {"allreduce.last"} == {"grouped_allreduce.both"}
    assert {"grouped_allreduce.both_1of2", "allreduce.noname.1", "allreduce.named"} <= theirs
    (grouped,) = (c for c in evidence.ranks[1].calls if c.operation == "grouped_allreduce")
    assert (grouped.nbytes, grouped.shape) == (20, (2,))


def test_every_half_is_summed():
    """Gloo as Horovod has it takes some halves for equal to others; our patch compares bits."""
    evidence = run(
        "halves = torch.arange(32_000, dtype=torch.float32).half()\n"
        "return hvd.allreduce(halves.clone(), op=hvd.Sum).eq(halves + halves).all().item()"
    )
    assert evidence.values == (True, True)


def test_without_a_group_the_drive_initialises():
    evidence = run("hvd.init()\nreturn hvd.size()", process_group=False)
    assert evidence.values == (2, 2)
    (call,) = evidence.ranks[1].calls
    assert (call.operation, call.group, call.line) == ("hvd.init", (0, 1), 3)
    assert call.finished is not None


def test_horovod_can_be_shut_down_and_begun_again():
    body = "hvd.allreduce(torch.ones(1))\nhvd.shutdown()\nhvd.init()\n"
    evidence = run(body + "return hvd.allreduce(torch.ones(1), op=hvd.Sum)", 3)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    assert [value.item() for value in evidence.values] == [3, 3, 3]
    names = [call.tensor for call in evidence.ranks[0].calls]
    assert names == ["allreduce.noname.1", "", "allreduce.noname.1"]


CASES = {
    "a rank that never submits its tensor": (
        "if hvd.rank() == 1:\n    hvd.allreduce(torch.ones(3), name='grad.fc.weight')",
        "hang",
        (0,),
        "rank 1 waits in allreduce of 'grad.fc.weight' (call 1, line 4 of your answer); "
        "rank 0 has made no call at all and returned",
    ),
    "tensors of other names": (
        "hvd.allreduce(torch.ones(3), name='ab'[hvd.rank()])",
        "hang",
        (0, 1),
        "rank 0 waits in allreduce of 'a' (call 1, line 3 of your answer); "
        "rank 1 waits in allreduce of 'b' (call 1, line 3 of your answer)",
    ),
    "a rank that is stuck while Horovod's threads go on": (
        "if hvd.rank():\n    queue.Queue().get()\nhvd.allreduce(torch.ones(3))",
        "hang",
        (1,),
        "rank 0 waits in allreduce (call 1, line 5 of your answer); "
        "rank 1 is stuck at line 4 of your answer, in no collective",
    ),
    "different shapes": (
        "hvd.allreduce(torch.ones(3 + hvd.rank()), name='x')",
        "mismatch",
        (0, 1),
        "ranks bring different shapes to allreduce of 'x': rank 0 float32 [3] average (call 1, "
        "line 3 of your answer), rank 1 float32 [4] average (call 1, line 3 of your answer)",
    ),
    "what only Horovod finds": (
        "hvd.allgather(torch.ones(3, 2 + hvd.rank()), name='x')",
        "raised",
        (0, 1),
        "ranks 0 and 1 raised HorovodInternalError: Mismatched ALLGATHER tensor shapes: ",
    ),
    "a rank that has shut down": (
        "if hvd.rank() == 1:\n    hvd.shutdown()\nelse:\n    hvd.allreduce(torch.ones(3))",
        "raised",
        (0,),
        "rank 0 raised HorovodInternalError: Horovod has been shut down. ",
    ),
    "no init": (
        "hvd.allreduce(torch.ones(3))",
        "raised",
        (0, 1),
        "ranks 0 and 1 raised HorovodInternalError: Horovod has not been initialized; use "
        "hvd.init(). (line 3 of your answer)",
    ),
    "killed in the middle of an all-reduce": (
        "handle = hvd.allreduce_async_(torch.ones(30_000_000), name='x')\n"
        "if hvd.rank() == 1:\n    os.kill(os.getpid(), signal.SIGKILL)\nhvd.synchronize(handle)",
        "killed",
        (1,),
        "rank 1 was killed by SIGKILL",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_goes_wrong_is_told(case):
    body, kind, ranks, sentence = CASES[case]
    diagnosis = run(body, process_group=case != "no init").diagnosis
    assert (diagnosis.kind, diagnosis.ranks) == (kind, ranks), diagnosis.sentence
    assert diagnosis.sentence.startswith(sentence)
    if case == "a rank that has shut down":
        assert diagnosis.sentence.endswith("; rank 1 has made no call at all and returned")


def test_other_orders_and_late_ranks_are_no_fault():
    body = """
    tensors = {'a': torch.ones(2), 'b': torch.ones(3)}
    order = ('ab', 'ba')[hvd.rank()]
    handles = [hvd.allreduce_async(tensors[name], name=name) for name in order]
    [hvd.synchronize(handle) for handle in handles]
    for _ in range(1 + 2 * hvd.rank()):
        time.sleep(0.6)
        hvd.allreduce(torch.ones(1), name='uneven')
    return hvd.join()
    """
    lines = [line.removeprefix("    ") for line in body.strip("\n").splitlines()]
    evidence = run("\n".join(lines))
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    assert evidence.values == (1, 1)
    # A rank's calls for one tensor are counted, for they are what is matched.
    counted = [[(c.tensor, c.sequence) for c in rank.calls] for rank in evidence.ranks]
    uneven = [("allreduce.uneven", n) for n in (1, 2, 3)]
    a, b, joined = ("allreduce.a", 1), ("allreduce.b", 1), ("join.noname", 1)
    assert counted == [[a, b, uneven[0], joined], [b, a, *uneven, joined]]


def test_a_rank_that_has_joined_takes_part_in_what_the_others_do():
    """However long it takes: here 1.6 s in which nothing else moves."""
    evidence = run(
        "if hvd.rank() == 1:\n    hvd.allreduce(torch.ones(500_000), name='x')\nreturn hvd.join()",
        link="10mbit",
    )
    if evidence.no_link:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    assert evidence.values == (1, 1)
    (call,) = (call for call in evidence.ranks[1].calls if call.operation == "allreduce")
    assert call.finished - call.waited > QUIET, "too fast to tell"


def test_on_a_link_ranks_know_their_nodes_and_all_bytes_are_counted():
    count = 1_000_000
    evidence = run(
        f"hvd.allreduce(torch.ones({count}), op=hvd.Sum)\n"
        "return [hvd.local_rank(), hvd.cross_rank()]",
        4,
        link="nodes=2x2,intra=10gbit,inter=1gbit",
    )
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    if evidence.no_link:
        pytest.skip(f"no emulated network: {evidence.no_link}")
    local, cross = zip(*evidence.values, strict=True)
    assert (local, cross) == ((0, 1, 0, 1), (0, 0, 1, 1))
    ring = 4 * count * 2 * 3 / 4  # bytes that each rank of a ring of four sends
    for rank in evidence.ranks:
        assert ring <= rank.traffic.sent_bytes <= 1.3 * ring


def test_horovods_own_threads_are_known_by_name():
    """What they use is not taken for a rank's progress."""
    evidence = run(
        "import threading\nfrom pathlib import Path\n"
        "own = str(threading.get_native_id())\n"
        "tasks = [t for t in Path('/proc/self/task').iterdir() if t.name != own]\n"
        "return [(t / 'comm').read_text().strip() for t in tasks]"
    )
    for names in evidence.values:
        assert names
        assert set(names) == {"horovod"}


def test_a_flavour_that_is_none_is_refused():
    with pytest.raises(UserError, match="flavour 'mpi': give one of torch, horovod"):
        launch(lambda: None, 1, flavour="mpi")
