"""A sandbox forked from a template: the same wall, and nothing in common with the others."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import cloudpickle
import psutil
import pytest

from hpml.grading import sandbox as rooms
from hpml.grading import template
from hpml.grading.sandbox import MIB, Limits, sandbox
from hpml.ranks import Reply, ask, launch
from hpml.ranks.parent import warm

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # a sandbox has no tests

SMALL = Limits(memory=900 * MIB, processes=120, processor=30, wall=60, files=256, disk=16 * MIB)

pytestmark = [
    pytest.mark.usefixtures("sandboxed"),
    pytest.mark.skipif(
        rooms.missing() is None and not rooms.forks(),
        reason="this kernel allows no namespaces within bubblewrap's",
    ),
]


def rank_of(box, drive, *inputs, serve=None):
    """What one rank in the sandbox returns."""
    with warm.using(box.server):
        evidence = launch(drive, 1, inputs=list(inputs) or None, process_group=False, serve=serve)
    assert evidence.diagnosis is None, evidence.diagnosis
    return evidence.values[0]


def wall():
    """What a rank can see of the wall around it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    rights = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "SigIgn", "SigBlk", "Threads")
    mounts = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        _, _, _, root, point, options, *_ = before.split()
        kind, _, settings = after.split(" ", 2)
        kept = sorted({"ro", "rw", "nosuid", "nodev"} & set(options.split(",")))
        sizes = [word for word in settings.split(",") if word.startswith(("size=", "mode="))]
        mounts[point] = [root, kind, kept, sizes]
    return {
        "rights": {
            name: status[name].split() for name in status if name in rights or "Cap" in name
        },
        "mounts": mounts,
        "limits": Path("/proc/self/limits").read_text(),
        "groups": Path("/proc/self/cgroup").read_text(),
        "host": list(os.uname())[1],
        "users": [Path(f"/proc/self/{which}_map").read_text().split() for which in ("uid", "gid")],
        "environment": sorted(os.environ),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
        "interfaces": Path("/proc/net/dev").read_text().count(":"),
        "session": os.getsid(0) > 0,
        "folder": os.getcwd().split("-")[0],
    }


def test_the_wall_is_the_one_that_bubblewrap_makes(monkeypatch):
    with sandbox(SMALL) as forked:
        found = rank_of(forked, wall)
    monkeypatch.setattr(rooms, "forks", lambda flavour: False)
    with sandbox(SMALL) as alone:
        expected = rank_of(alone, wall)
    # But for what a rank has of its own where it can: see test_ranks_apart
    assert (found.pop("processes"), expected.pop("processes")) == (2, 3)
    for one in (found, expected):  # outside its user namespace it has another number in each
        one["users"] = [inside for inside, _, many in one["users"] if many == "1"]
    del expected["mounts"]["/proc/sys/net"]
    for point in [point for point in found["mounts"] if point.endswith("/meet")]:
        del found["mounts"][point]
    assert found == expected


def parent(box):
    return psutil.Process(box.server.pid).parent().pid


def namespaces():
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in os.listdir("/proc/self/ns")}


def namespaces_while_a_neighbour_looks():
    ask("now")
    return namespaces()


def test_it_shares_no_namespace_with_its_template_another_sandbox_or_the_grader():
    with sandbox(SMALL) as one, sandbox(SMALL) as other:
        seen = []

        def look(rank, request):  # while the first rank waits: numbers of what ended are used again
            seen.append(rank_of(other, namespaces))
            return [Reply(rank)]

        first = rank_of(one, namespaces_while_a_neighbour_looks, serve=look)
        (second,) = seen
        # One template: its children, which forked the servers, may not have ended yet
        deadline = time.monotonic() + 60
        while (outer := parent(one)) != parent(other) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert outer == parent(other)
        theirs = {name: os.readlink(f"/proc/{outer}/ns/{name}") for name in first}
    separate = {"mnt", "pid", "net", "ipc", "uts", "user"}
    assert separate < set(first)
    ours = namespaces()
    for name in separate:
        assert len({first[name], second[name], theirs[name], ours[name]}) == 4, name


def test_two_threads_may_end_it_at_once(monkeypatch):
    """The watch over its limits, and a launch in it that failed."""
    child = subprocess.Popen(["sleep", "60"])
    forked = template._Forked(os.pidfd_open(child.pid))
    send = signal.pidfd_send_signal

    def send_while_another_closes(pidfd, number):
        other = threading.Thread(target=forked.close)
        other.start()
        other.join(0.2)
        send(pidfd, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", send_while_another_closes)
    forked.kill()
    assert child.wait(10) == -signal.SIGKILL
    forked.kill()  # it is closed by now
    forked.wait(0)


def leave_behind():
    for folder in ("/tmp", "/dev/shm"):
        Path(folder, "kept").write_text("for the next one")
    if os.fork() == 0:
        os.setsid()
        signal.pause()
    return sorted(os.listdir("/tmp"))


def test_nothing_is_left_for_the_next_one_or_seen_by_a_neighbour():
    with sandbox(SMALL) as before, sandbox(SMALL) as neighbour:
        assert "kept" in rank_of(before, leave_behind)
        with sandbox(SMALL) as after:
            for other in (neighbour, after):
                seen = rank_of(
                    other,
                    lambda: [
                        os.path.exists("/tmp/kept") or os.path.exists("/dev/shm/kept"),
                        sorted(int(name) for name in os.listdir("/proc") if name.isdigit())[0],
                        len([name for name in os.listdir("/proc") if name.isdigit()]),
                    ],
                )
                assert seen == [False, 1, 2]  # the rank, and what its namespace begins with


def test_sandboxes_end_with_their_template_and_a_new_one_is_started():
    with sandbox(SMALL) as box:
        inside = box.server.pid
        template.stop()
        warm._wait_until_dead([psutil.Process(inside)] if psutil.pid_exists(inside) else [], 5.0)
        assert not box.alive
    with sandbox(SMALL) as box:
        assert rank_of(box, os.getpid) > 1


def test_a_limit_is_the_submissions_own():
    with sandbox(SMALL) as one, sandbox(Limits(files=300, disk=MIB)) as other:
        for box, files, size in ((one, 256, 16 * MIB), (other, 300, MIB)):
            seen = rank_of(
                box,
                lambda: [
                    resource.getrlimit(resource.RLIMIT_NOFILE)[1],
                    os.statvfs("/tmp").f_blocks * os.statvfs("/tmp").f_frsize,
                ],
            )
            assert seen == [files, size]


@pytest.mark.parametrize(
    ("shared", "refused"),
    [
        ("import mmap; kept = mmap.mmap(-1, 4096)", True),
        ("kept = open('/proc/version')", True),
        ("kept = open('/dev/null', 'w')", False),
        ("", False),
    ],
)
def test_a_template_that_would_share_something_does_not_start(shared, refused):
    code = f"""
import socket
from hpml.ranks.server import template
{shared}
control, _ = socket.socketpair()
_.close()
try:
    template._refuse_to_share(control.fileno())
except template.Shares:
    raise SystemExit(3)
"""
    null = subprocess.DEVNULL
    ended = subprocess.run([sys.executable, "-c", code], stdin=null, stdout=null, stderr=null)
    assert ended.returncode == (3 if refused else 0)


# As where no user namespace within bubblewrap's has rights
WITHOUT_MAPS = """
from hpml.ranks.server import template
from hpml.ranks.supervisor import wall
def refused():
    raise PermissionError(1, "Operation not permitted")
wall.become_nobody = refused
template.main()
"""


@pytest.mark.parametrize("main", ["raise SystemExit(1)", WITHOUT_MAPS])
def test_where_none_can_be_forked_each_sandbox_has_an_import_of_its_own(monkeypatch, main):
    template.stop()
    rooms.forks.cache_clear()
    monkeypatch.setattr(template, "MAIN", main)
    try:
        assert not rooms.forks()
        with sandbox(SMALL) as box:
            assert rank_of(box, os.getpid) > 1
    finally:
        template.stop()
        rooms.forks.cache_clear()


def test_a_server_that_its_group_does_not_take_is_ended():
    class Full:
        def enter(self, pid):
            self.pid = pid
            raise OSError("no room")

    group = Full()
    with pytest.raises(OSError, match="no room"):
        rooms._template("torch").enclosed(MIB, {}, group)
    with contextlib.suppress(psutil.Error):
        psutil.Process(group.pid).wait(5)
    assert not psutil.pid_exists(group.pid)


IN_TMP = """
import os, pathlib, sys
import cloudpickle
from hpml.grading.sandbox import forks, sandbox
from hpml.ranks import Reply, ask, launch
from hpml.ranks.parent import warm
import hpml

def drive(path):
    return [os.path.isdir(path), os.listdir(os.path.dirname(os.path.dirname(path)))]

assert forks()
with sandbox() as box, warm.using(box.server):
    path = str(pathlib.Path(hpml.__file__).with_name("ranks"))
    evidence = launch(drive, 1, inputs=[path], process_group=False)
print(evidence.diagnosis, *evidence.values)
"""


def test_a_checkout_below_tmp_is_still_seen_where_tmp_is_the_sandboxs_own():
    source = Path(warm.__file__).parents[2]
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="a chéckout-") as folder:
        shutil.copytree(source, f"{folder}/src/hpml", ignore=shutil.ignore_patterns("__pycache__"))
        Path(folder, "src", "secret").touch()
        ended = subprocess.run(
            [sys.executable, "-c", IN_TMP],
            env={**os.environ, "PYTHONPATH": f"{folder}/src"},
            capture_output=True,
            text=True,
            timeout=300,
        )
    assert ended.stdout == "None [True, ['hpml']]\n", ended.stderr
