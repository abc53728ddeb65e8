"""What the kernel counts of a rank is seen from outside, at each request."""

import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from hpml.grading.sandbox import sandbox
from hpml.ranks import Reply, ask, launch
from hpml.ranks.parent import warm
from hpml.ranks.supervisor.kernel_counts import Opens

FILE = 300_000  # bytes


def serve(rank, request):
    return [Reply(rank)]


def seen(folder):
    def drive(size):
        Path("file").write_bytes(bytes(size))
        ask("before")
        tasks = len(os.listdir("/proc/self/task"))
        for _ in range(3):
            Path("file").read_bytes()
        ask("after three reads")
        fd = os.open("file", os.O_RDONLY)
        for place in range(10):
            os.pread(fd, 100, 1000 * place)
        ask("after ten small reads")
        ends = threading.Event()
        threads = [threading.Thread(target=ends.wait) for _ in range(2)]
        for thread in threads:
            thread.start()
        child = os.fork()
        if child == 0:
            time.sleep(60)
        ask("two threads and a process more")
        ends.set()
        for thread in threads:
            thread.join()
        os.kill(child, 9)
        os.waitpid(child, 0)
        while len(os.listdir("/proc/self/task")) > tasks:  # a joined thread takes a moment to end
            time.sleep(0.001)
        ask("gone")

    evidence = launch(
        drive,
        1,
        inputs=[FILE],
        process_group=False,
        cwd=folder,
        serve=serve,
        looks=True,
        opens=["file"],
    )
    assert evidence.diagnosis is None, evidence.diagnosis
    return [asked.counts for asked in evidence.ranks[0].asked]


def holds(counts):
    tasks = [each.tasks - counts[0].tasks for each in counts]
    opened = [each.opened.get("file", 0) - counts[0].opened["file"] for each in counts]
    read = [each.read_bytes - counts[0].read_bytes for each in counts]
    assert tasks == [0, 0, 0, 3, 0]
    assert opened == [0, 3, 4, 4, 4]
    assert 3 * FILE <= read[1] < 3 * FILE + 10_000
    assert 1000 <= read[2] - read[1] < 10_000


def test_tasks_reads_and_opens_are_seen_from_outside(tmp_path):
    holds(seen(tmp_path))


@pytest.mark.usefixtures("sandboxed")
def test_they_are_seen_in_a_sandbox_too(tmp_path):
    with sandbox() as box, warm.using(box.server):
        holds(seen(tmp_path))


@pytest.mark.usefixtures("sandboxed")
def test_what_works_on_when_its_parent_has_ended_is_counted_in_a_sandbox():
    def drive():
        ask("before")
        ends, end = os.pipe()
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                until = time.process_time() + 0.2
                while time.process_time() < until:
                    pass
            os._exit(0)
        os.close(end)
        os.waitpid(child, 0)
        ask("its parent has ended")
        os.read(ends, 1)  # until it has ended, too
        ask("it has ended")

    with sandbox() as box, warm.using(box.server):
        evidence = launch(drive, 1, process_group=False, serve=serve, looks=True)
    before, at_work, after = (asked.counts for asked in evidence.ranks[0].asked)
    assert at_work.tasks - before.tasks == 1
    assert after.processor_seconds - before.processor_seconds >= 0.2


def test_opens_of_a_folder_that_is_not_kept_are_not_counted():
    def drive():
        ask("now")

    evidence = launch(drive, 1, process_group=False, serve=serve, looks=True)
    (asked,) = evidence.ranks[0].asked
    assert asked.counts.opened is None
    assert asked.counts.tasks >= 1


def test_nothing_is_counted_where_nobody_looks(tmp_path):
    def drive():
        ask("now")

    evidence = launch(drive, 1, process_group=False, cwd=tmp_path, serve=serve)
    assert evidence.ranks[0].asked[0].counts is None


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        Opens(str(tmp_path / "nowhere"), ["file"])


def processor_times(folder):
    def works(seconds):  # of the calling thread's own clock
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    def drive():
        ask("before")
        works(0.05)
        ask("after work")
        thread = threading.Thread(target=works, args=[0.05])
        thread.start()
        thread.join()
        ask("after a thread's work, which has ended")
        reads, writes = os.pipe()
        if os.fork() == 0:
            works(0.1)
            os.write(writes, b".")
            time.sleep(60)
        os.read(reads, 1)
        ask("while a child that has worked is there")
        child = os.fork()
        if child == 0:
            works(0.1)
            os._exit(0)
        os.waitpid(child, 0)
        ask("after another child")
        time.sleep(0.1)
        ask("after a sleep")

    evidence = launch(drive, 1, process_group=False, cwd=folder, serve=serve, looks=True)
    assert evidence.diagnosis is None, evidence.diagnosis
    times = [asked.counts.processor_seconds for asked in evidence.ranks[0].asked]
    return [later - one for one, later in itertools.pairwise(times)]


def holds_times(used):
    # At least what each has worked for; no clock says how much a busy machine adds
    own, thread, there, gone, asleep = used
    assert min(own, thread) >= 0.05
    assert there >= 0.1
    assert gone >= 0.09  # of children that are gone, in steps of 0.01
    assert 0 <= asleep < 0.09


def test_processor_time_is_that_of_threads_and_children_too(tmp_path):
    holds_times(processor_times(tmp_path))


@pytest.mark.usefixtures("sandboxed")
def test_processor_time_is_seen_in_a_sandbox_too(tmp_path):
    with sandbox() as box, warm.using(box.server):
        holds_times(processor_times(tmp_path))
