"""Ranks in a sandbox: what one of them can see, reach and leave behind for another."""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path

import cloudpickle
import psutil
import pytest

from hpml.answer.rules import ReadyMade, Rules
from hpml.grading import sandbox as rooms
from hpml.grading.sandbox import MIB, Limits, sandbox
from hpml.ranks import Kill, Reply, ask, launch
from hpml.ranks.parent import warm
from hpml.ranks.supervisor import seccomp

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a sandbox has no tests

SMALL = Limits(memory=900 * MIB, processes=120, processor=60, wall=120, files=256, disk=16 * MIB)

pytestmark = pytest.mark.usefixtures("box")


@pytest.fixture(scope="module", params=["namespaces", "filter"])
def box(sandboxed, request):
    """With namespaces for each rank, and as where a kernel allows none inside bubblewrap's."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "filter":
            patch.setattr(rooms, "forks", lambda flavour: False)
        elif not rooms.forks():
            pytest.skip("this kernel allows no namespaces within bubblewrap's")
        limits = replace(SMALL, wall=3600)  # between two tests a lecture may be played
        with sandbox(limits) as running, warm.using(running.server):
            running.walled = request.param == "namespaces"
            yield running


# Where each rank has namespaces of its own
apart = pytest.mark.parametrize("box", ["namespaces"], indirect=True)


def values(drive, world=2, **options):
    options = {"inputs": list(range(world)), "timeout": 20} | options
    evidence = launch(drive, world, **options)
    assert evidence.diagnosis is None, evidence.diagnosis
    return evidence.values


def namespaces(rank):
    kinds = ("pid", "mnt", "ipc", "user")
    return [os.readlink(f"/proc/self/ns/{kind}") for kind in kinds]


@apart
@pytest.mark.parametrize("link", [None, "1gbit"])
def test_each_rank_has_namespaces_of_its_own(link):
    first, second = values(namespaces, link=link)
    assert not set(first) & set(second)


@apart
def test_the_first_process_of_a_namespace_holds_nothing_of_the_launch(box):
    held = []

    def look(rank, request):
        family = psutil.Process(box.server.pid).children(recursive=True)
        for first in (process for process in family if process.name() == "sleep"):
            held.append([os.readlink(link) for link in Path(f"/proc/{first.pid}/fd").iterdir()])
        return [Reply(rank, 0)]

    values(lambda rank: ask("look"), serve=look)
    assert len(held) >= 2
    assert held == [["/dev/null"] * 3] * len(held)


def looks_around(rank):
    import torch.distributed as dist

    for folder in ("/tmp", "/dev/shm", "."):
        Path(folder, f"by-{rank}").touch()
    dist.barrier()  # all are there, and have written
    processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    files = [sorted(Path(folder).glob("by-*")) for folder in ("/tmp", "/dev/shm", ".")]
    return [processes, os.getpid(), [[path.name for path in found] for found in files]]


@apart
def test_a_rank_sees_its_own_processes_and_files_only():
    for rank, (processes, own, files) in enumerate(values(looks_around)):
        assert processes == [1, own]
        assert files == [[f"by-{rank}"]] * 3


def leaves_and_finds(rank):
    """What earlier launches have left, where files, names and keys can be kept."""
    found = []
    for folder in ("/tmp", "/dev/shm", "/tmp/hpml-kept"):
        with contextlib.suppress(OSError):
            found += [path.name for path in Path(folder).glob("*") if "left" in path.name]
            hidden = Path(folder, "left")
            hidden.mkdir()
            Path(hidden, "file").touch()
            hidden.chmod(0)
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind("\0left")
    except OSError:
        found.append("a socket's name")
    libc = ctypes.CDLL(None, use_errno=True)
    if rank == 0 and libc.shmget(4711, 4096, 0o600) >= 0:
        found.append("shared memory")
    libc.shmget(4711, 4096, 0o1600)
    for where in ("/proc/sys/net/ipv4/tcp_fin_timeout", "/proc/sys/kernel/domainname"):
        with contextlib.suppress(OSError):
            found += [where] if Path(where).read_text() == "7\n" else []
            Path(where).write_text("7")
    return found


def test_nothing_is_left_for_the_next_launch(box):
    options = {"world": 1, "process_group": False}
    assert values(leaves_and_finds, **options) == ([],)
    again = values(leaves_and_finds, **options)[0]
    # Without namespaces, only files are taken care of
    assert [name for name in again if box.walled or name == "left"] == []


def writes(rank):
    before = sorted(path.name for path in Path().glob("[0-9]*"))
    Path(f"{time.monotonic_ns()}").touch()
    return before


def test_a_folder_that_is_asked_for_is_kept_for_the_next_launch_and_no_other():
    for expected in (0, 1, 2):
        assert len(values(writes, 1, cwd="/there/one")[0]) == expected
    assert values(writes, 1, cwd="/there/other") == ([],)
    assert values(writes, 1) == ([],)
    assert values(writes, 1, cwd="/there/one") == ([],)


def shares(rank):
    import torch.distributed as dist

    Path(f"by-{rank}").touch()
    Path(os.environ["TMPDIR"], f"mine-{rank}").touch()
    os.replace(
        Path(os.environ["TMPDIR"], f"mine-{rank}"), f"moved-{rank}"
    )  # not to another file system
    dist.barrier()
    return sorted(path.name for path in Path().glob("*-*"))


def test_ranks_meet_in_a_folder_that_is_asked_for():
    assert values(shares, cwd="/there/one") == (["by-0", "by-1", "moved-0", "moved-1"],) * 2


def takes_hold(rank):
    libc = ctypes.CDLL(None, use_errno=True)
    refused = []
    for name, number in seccomp.refused().items():
        ctypes.set_errno(0)
        libc.syscall(number, os.getppid(), 0, 0, 0, 0, 0)
        refused += [name] if ctypes.get_errno() == 1 else []
    return refused


@pytest.mark.skipif(not seccomp.refused(), reason="this machine's system calls are not known")
def test_system_calls_that_take_hold_of_a_process_are_refused(box):
    refused = set(values(takes_hold, 1)[0])
    assert refused == set(seccomp.refused())


def loads_anew(answer):
    """What loading a module anew, reading its bytecode and starting a program lead to, when all
    that holds this process to rules has been emptied."""
    import gc
    from importlib import reload
    from importlib.util import cache_from_source
    from types import FunctionType

    import torch.optim.sgd as sgd

    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__module__ == "hpml.answer.enforce":
            for cell in each.__closure__ or ():
                if isinstance(cell.cell_contents, dict):
                    cell.cell_contents = {}

    def starts():
        pid = os.fork()
        if pid == 0:
            try:
                os.execv("/bin/true", ["true"])
            finally:
                os._exit(9)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def uncovers():
        with contextlib.suppress(OSError):
            os.chmod(sgd.__file__, 0o600)
        return Path(sgd.__file__).read_text()

    found = []
    for work in (
        lambda: reload(sgd).__name__,
        lambda: len(Path(cache_from_source(sgd.__file__)).read_bytes()) > 0,
        uncovers,
        starts,
    ):
        try:
            found.append(work())
        except OSError as error:
            found.append(type(error).__name__)
    return found


@apart
def test_what_is_refused_cannot_be_loaded_anew_whatever_is_emptied_in_the_rank():
    refused = ReadyMade("steps", ("torch.optim.sgd.SGD", "os.execve"))
    options = {"answer": "", "inputs": None, "process_group": False}
    (free,) = values(loads_anew, 1, rules=Rules(("torch",)), **options)
    assert [free[0], free[1], free[3]] == ["torch.optim.sgd", True, 0]
    assert "class SGD" in free[2]
    (held,) = values(loads_anew, 1, rules=Rules(("torch",), "", (refused,)), **options)
    assert held == ["PermissionError", "PermissionError", "", 9]


def stops_everybody(rank):
    import torch.distributed as dist

    dist.barrier()
    if rank == 0:
        own = {int(thread) for thread in os.listdir("/proc/self/task")}
        for pid in {*range(1, 40), -1} - own:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.kill(0, signal.SIGUSR1)  # the default ends a process
    dist.barrier()
    return rank


@apart
def test_no_signal_reaches_another_rank_or_the_supervisor():
    assert values(stops_everybody, 3) == (0, 1, 2)


@pytest.mark.parametrize("name", ["SIGABRT", "SIGTERM", "SIGKILL"])
def test_a_signal_ends_a_rank_as_it_ends_any_process(box, name):
    def ends_itself(number):
        os.kill(os.getpid(), number)

    evidence = launch(ends_itself, 1, inputs=[int(signal.Signals[name])], timeout=20)
    assert (evidence.ranks[0].end, evidence.ranks[0].signal) == ("killed", name)


def sleeps(rank):
    time.sleep(2.0)
    return rank


def test_who_sleeps_is_not_taken_for_one_who_waits(box):
    assert values(sleeps) == (0, 1)


def leaves_a_daemon(rank):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            signal.pause()
        os._exit(0)
    return os.readlink("/proc/self/ns/mnt")


def test_what_a_rank_started_ends_with_the_launch(box):
    left = set(values(leaves_a_daemon)) if box.walled else set()
    there = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            there.add(os.readlink(process / "ns" / "mnt"))
    assert not left & there


def test_a_rank_is_killed_while_it_writes_and_the_box_goes_on(tmp_path):
    def drive():
        if not os.path.isdir("there"):
            return os.mkdir("there")
        for _ in range(3):
            with open("there/file", "w") as file:
                file.write("x" * 2**20)
        while True:  # so that it is there to be killed, however late
            time.sleep(0.01)

    options = {"cwd": tmp_path, "process_group": False}
    launch(drive, 1, **options)  # makes the folder, where a sandbox's is not ours
    for nth in (1, 2):
        evidence = launch(drive, 1, kill=Kill(0, "there", nth), **options)
        assert evidence.killed == 0
        assert (evidence.ranks[0].end, evidence.ranks[0].signal) == ("killed", "SIGKILL")
