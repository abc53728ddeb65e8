"""What an answer can see, keep and use up inside a sandbox; for real, with small limits."""

import contextlib
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from hpml.errors import UserError
from hpml.grading import bubblewrap, template
from hpml.grading import sandbox as rooms
from hpml.grading.sandbox import GROUP, MIB, REQUIRED, Limits, sandbox
from hpml.machine import control_group
from hpml.paths import CHECKOUT
from hpml.ranks import flavour, launch
from hpml.ranks.parent import warm
from hpml.ranks.supervisor import seccomp

SMALL = Limits(memory=900 * MIB, processes=120, processor=30, wall=60, files=256, disk=16 * MIB)


@pytest.fixture(scope="module", params=["forked from a template", "with an import of its own"])
def box(sandboxed, request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "with an import of its own":
            patch.setattr(rooms, "forks", lambda flavour: False)
        elif not rooms.forks():
            pytest.skip("this kernel allows no namespaces within bubblewrap's")
        with sandbox(replace(SMALL, wall=3600)) as running:  # a lecture may play between two tests
            yield running


@pytest.fixture
def inside(box):
    """What one rank in the sandbox returns for a function."""

    def call(drive, *inputs):
        with warm.using(box.server):
            evidence = launch(drive, 1, inputs=[inputs[0]] if inputs else None, process_group=False)
        assert evidence.diagnosis is None, evidence.diagnosis
        return evidence.values[0]

    return call


def test_the_layers_are_named(box):
    assert set(REQUIRED) <= set(box.layers)
    rooms.layers.cache_clear()  # it may be of a machine that allows more
    assert box.layers == rooms.layers()
    rooms.layers.cache_clear()


def test_ranks_talk_to_each_other_with_and_without_a_link(box):
    def drive(number):
        import torch
        import torch.distributed as dist

        total = torch.tensor([number])
        dist.all_reduce(total)
        return total.item()

    with warm.using(box.server):
        plain = launch(drive, 3, inputs=[1, 2, 3])
        linked = launch(drive, 2, inputs=[1, 2], link="1gbit")
    assert (plain.diagnosis, plain.values) == (None, (6, 6, 6))
    assert (linked.diagnosis, linked.values, linked.no_link) == (None, (3, 3), "")
    assert linked.ranks[0].traffic.sent_bytes > 0


@pytest.mark.parametrize("proxied", [False, True])
def test_what_ranks_hold_is_counted_through_the_wall(box, proxied):
    def drive():
        import torch

        torch.ones(8 * 2**20)

    with warm.using(box.server):
        evidence = launch(drive, 2, proxied=proxied, count_memory=True)
    assert evidence.diagnosis is None, evidence.diagnosis
    assert all(31 * 2**20 < rank.peak_bytes < 34 * 2**20 for rank in evidence.ranks)


def test_a_hang_is_seen_through_the_wall(box):
    def drive(rank):
        import torch
        import torch.distributed as dist

        if rank == 0:
            dist.all_reduce(torch.ones(1))

    with warm.using(box.server):
        evidence = launch(drive, 2, inputs=[0, 1])
    assert evidence.diagnosis.kind == "hang"
    assert "all_reduce" in evidence.diagnosis.stacks[0]


def test_nothing_of_the_course_or_of_a_home_is_there(inside, tmp_path):
    mine = tmp_path / "marks.csv"
    mine.write_text("secret")
    package = Path(bubblewrap.hpml.__file__).parent
    wanted = [
        str(mine),
        str(CHECKOUT / "solutions"),
        str(CHECKOUT / "course.toml"),
        str(CHECKOUT / "tests"),
        str(package / "checks"),
        str(package / "modules"),
        str(package / "grading"),
        str(package / "course"),
        "/etc/passwd",
    ]
    assert inside(lambda paths: [p for p in paths if os.path.exists(p)], wanted) == []
    # Of a home, what leads to an interpreter in it, and no more.
    home = Path.home()
    prefixes = [Path(p).resolve() for p in (sys.prefix, sys.base_prefix)]
    leading = {p.relative_to(home).parts[0] for p in prefixes if p.is_relative_to(home)}
    seen = inside(lambda path: os.listdir(path) if os.path.exists(path) else [], str(home))
    assert set(seen) <= leading


def test_what_is_there_cannot_be_written(inside):
    def drive(paths):
        denied = []
        for path in paths:
            try:
                with open(os.path.join(path, "mine"), "w") as file:
                    file.write("x")
            except OSError:
                denied.append(path)
        return denied

    readonly = [
        "/",
        "/dev",
        "/usr",
        sys.prefix,
        str(Path(bubblewrap.hpml.__file__).parent / "ranks"),
    ]
    assert inside(drive, readonly) == readonly
    assert inside(drive, ["/tmp", "/dev/shm"]) == []


def test_the_kernels_settings_cannot_be_written(inside):
    def drive():
        opened = []
        for folder, below, files in os.walk("/proc"):
            if folder == "/proc":  # not the processes'
                below[:] = [name for name in below if not name.isdigit() and "self" not in name]
            for path in (os.path.join(folder, name) for name in files):
                with contextlib.suppress(OSError):
                    os.close(os.open(path, os.O_WRONLY))
                    opened.append(path)
        return opened

    # But for those of its own network namespace, and what asks to be woken under pressure
    wrote = [p for p in inside(drive) if not p.startswith(("/proc/sys/net/", "/proc/pressure/"))]
    assert wrote == []


def test_it_is_nobody_with_no_rights_and_sees_only_its_own_processes(inside):
    def drive():
        lines = Path("/proc/self/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        processes = [name for name in os.listdir("/proc") if name.isdigit()]
        rights = [status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs")]
        return [os.getuid(), *rights, len(processes), os.uname().nodename]

    uid, effective, bounding, no_new, processes, host = inside(drive)
    assert (uid, int(effective, 16), int(bounding, 16), no_new) == (65534, 0, 0, "1")
    assert (processes < 8, host) == (True, "127.0.0.1")


def test_with_rights_in_namespaces_of_its_own_an_answer_uncovers_nothing(inside):
    def drive():
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        pid = os.fork()
        if pid == 0:
            new_user, new_mounts, detach, remount_bind = 0x10000000, 0x20000, 2, 32 | 4096
            code = int(libc.unshare(new_user | new_mounts) != 0)
            for path in (b"/tmp", b"/dev/shm", b"/dev/pts", b"/proc", b"/proc/sys", b"/usr"):
                code |= 2 * (libc.umount2(path, detach) == 0)
            for path in (b"/", b"/usr", b"/proc/sys", b"/dev"):
                code |= 4 * (libc.mount(None, path, None, remount_bind, None) == 0)
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert inside(drive) == 0


def test_there_is_no_way_out_over_the_network(inside):
    def drive():
        import socket

        found = []
        for target in (("192.0.2.1", 80), ("1.1.1.1", 53)):
            with socket.socket() as sock:
                sock.settimeout(2)
                try:
                    sock.connect(target)
                    found.append("connected")
                except OSError as error:
                    found.append(error.strerror)
        return [found, [name for _, name in socket.if_nameindex()]]

    found, interfaces = inside(drive)
    assert found == ["Network is unreachable"] * 2
    assert interfaces == ["lo"]


@pytest.mark.usefixtures("sandboxed")
def test_the_grader_is_not_in_its_environment(monkeypatch):
    monkeypatch.setenv("GRADER_TOKEN", "secret")
    template.stop()  # a new one, that could have it
    with sandbox(SMALL) as fresh, warm.using(fresh.server):
        evidence = launch(lambda: sorted(os.environ), 1, process_group=False)
    assert "GRADER_TOKEN" not in evidence.values[0]
    assert "HOME" in evidence.values[0]


def test_its_disk_is_small_and_goes_with_it(inside):
    def drive(folder):
        try:
            with open(f"{folder}/big", "wb") as file:
                for _ in range(64):
                    file.write(bytes(2**20))
        except OSError as error:
            return error.strerror
        finally:
            if os.path.exists(f"{folder}/big"):
                os.unlink(f"{folder}/big")

    for folder in ("/tmp", "/dev/shm"):
        assert inside(drive, folder) in ("No space left on device", "File too large")
    assert not Path("/tmp/big").exists()


def test_the_server_and_its_supervisors_cannot_be_looked_into(inside):
    def drive():
        refused = []
        for pid in (os.getppid(), 1):
            for look in (lambda p: os.readlink(f"{p}/fd/0"), lambda p: os.open(f"{p}/mem", 0)):
                try:
                    look(f"/proc/{pid}")
                    refused.append(False)
                except OSError:
                    refused.append(True)
        return refused

    assert all(inside(drive))


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize(
    ("drive", "said"),
    [
        (lambda: [bytearray(b"x" * 2**20) for _ in range(1500)], "MiB of memory"),
        (
            lambda: [threading.Thread(target=time.sleep, args=(20,)).start() for _ in range(200)],
            "processes and threads",
        ),
    ],
)
def test_what_takes_too_much_is_ended(drive, said, monkeypatch):
    # The watch alone, without the kernel's own limits, which would come first
    monkeypatch.setattr(control_group, "make", lambda *_: None)
    with sandbox(SMALL) as box, warm.using(box.server):
        pid = box.server.pid
        with contextlib.suppress(warm.ServerDied):
            launch(drive_then_wait(drive), 1, process_group=False, timeout=20)
        assert said in box.exceeded
        assert not box.alive
    assert not psutil.pid_exists(pid)


def drive_then_wait(drive):
    def both():
        kept = drive()
        time.sleep(15)
        return len(kept)

    return both


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.measures
def test_time_of_processors_and_of_the_clock_is_limited():
    def burn():  # and change a variable, or it would be seen for an endless loop
        total = 0
        while True:
            total += time.process_time_ns()

    for limits, said in (
        (replace(SMALL, processor=6), "6 s of processor time"),
        (replace(SMALL, wall=6), "more than 6 s"),
    ):
        with sandbox(limits) as box, warm.using(box.server):
            with contextlib.suppress(warm.ServerDied):
                launch(burn, 2, process_group=False, timeout=300)
            assert said in box.exceeded


def test_times_are_counted_for_each_answer(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(rooms, "time", SimpleNamespace(monotonic=lambda: now[0]))
    limits = replace(SMALL, processor=30, wall=60)
    box = rooms.Sandbox(SimpleNamespace(alive=lambda: True), (), limits, None)
    for seconds, processor, said in (
        (50, 20, ""),
        (50, 25, ""),
        (0, 31, "it used more than 30 s of processor time"),
        (61, 0, "it ran for more than 60 s"),
    ):
        assert box.begin_answer()
        now[0] += seconds
        box.spent += processor
        assert box.out_of_time() == said
    box.exceeded = said
    assert not box.begin_answer()


def test_the_kernel_limits_the_group_where_it_can():
    if GROUP not in rooms.layers():
        return  # as for an ordinary user; the watch is there
    with sandbox(SMALL) as box, warm.using(box.server):

        def drive():
            children = []
            try:
                for _ in range(300):
                    pid = os.fork()
                    if pid == 0:
                        time.sleep(20)
                        os._exit(0)
                    children.append(pid)
            except OSError as error:
                return [error.strerror, len(children)]
            return ["", len(children)]

        evidence = launch(drive, 1, process_group=False)
    if box.exceeded:  # the watch may see it first
        return
    assert evidence.values[0][0] == "Resource temporarily unavailable"
    assert evidence.values[0][1] < SMALL.processes


@pytest.mark.usefixtures("sandboxed")
def test_everything_in_it_ends_with_it():
    def drive():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(1000)
        return os.readlink("/proc/self/ns/pid")

    with sandbox(SMALL) as box, warm.using(box.server):
        namespace = launch(drive, 1, process_group=False).values[0]
    assert namespace not in {_namespace(pid) for pid in psutil.pids()}


def _namespace(pid: int) -> str:
    """Of a process that runs: the dead stay where the first process of a machine never asks."""
    try:
        dead = psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        return "" if dead else os.readlink(f"/proc/{pid}/ns/pid")
    except (OSError, psutil.Error):
        return ""


def test_no_sandbox_no_grading(monkeypatch):
    rooms.missing.cache_clear()
    monkeypatch.setattr(rooms.shutil, "which", lambda name: None)
    try:
        told = "bwrap is not installed: apt install bubblewrap"
        with pytest.raises(UserError, match=told), sandbox():
            pass
    finally:
        rooms.missing.cache_clear()


@pytest.mark.usefixtures("sandboxed")
def test_a_sandbox_that_does_not_run_is_missing(monkeypatch):
    rooms.missing.cache_clear()
    monkeypatch.setattr(bubblewrap, "SYSTEM", ())
    try:
        assert "does not run here" in rooms.missing()
        assert rooms.missing().count("\n") == 0
    finally:
        rooms.missing.cache_clear()


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.skipif(
    flavour.missing("horovod-tensorflow") is not None,
    reason=str(flavour.missing("horovod-tensorflow")),
)
def test_ranks_talk_through_horovod_inside():
    def through_torch():
        import horovod.torch as hvd
        import torch

        return hvd.allreduce(torch.ones(1), op=hvd.Sum).item()

    def through_tensorflow():
        import horovod.tensorflow as hvd
        import tensorflow as tf

        return tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))(tf.ones(1)).numpy().item()

    with sandbox(Limits(), "horovod-tensorflow") as box, warm.using(box.server):
        for drive, wanted, link in (
            (through_torch, "horovod", None),
            (through_tensorflow, "horovod-tensorflow", None),
            (through_torch, "horovod", "1gbit"),
        ):
            evidence = launch(drive, 3, flavour=wanted, link=link, timeout=60)
            assert evidence.diagnosis is None, evidence.diagnosis.sentence
            assert evidence.values == (3.0, 3.0, 3.0)
        assert not box.exceeded


def test_a_record_of_a_weaker_wall_reads_like_one(monkeypatch):
    everything = set(rooms._active(None, "torch"))
    assert rooms.FILTER in everything or not seccomp.refused()
    monkeypatch.setattr(rooms, "forks", lambda flavour: False)
    monkeypatch.setattr(rooms.available, "refusal", lambda: "no veth here")
    monkeypatch.setattr(rooms.seccomp, "refused", dict)
    assert rooms._active(None, "torch") == rooms.REQUIRED
    monkeypatch.setattr(rooms.available, "refusal", lambda: None)
    assert rooms._active(None, "torch") == (*rooms.REQUIRED, rooms.LINKS)
    monkeypatch.setattr(rooms, "forks", lambda flavour: True)
    for there in (True, False):
        monkeypatch.setattr(rooms, "_links", lambda there=there: there)
        assert (rooms.LINKS in rooms._active(None, "torch")) is there
        assert rooms.APART in rooms._active(None, "torch")
