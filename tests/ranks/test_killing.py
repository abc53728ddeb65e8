"""A rank is killed while it writes, from outside."""

import mmap
import os
import shutil
import time

import pytest

from hpml.ranks import Kill, killing, launch
from hpml.ranks.parent import warm

pytestmark = pytest.mark.measures  # a kill that comes in time

if not killing.possible():
    pytest.skip("only Linux reports when files are written", allow_module_level=True)

SIZE = 2**22


def in_place(path, text):
    with open(path, "w") as file:
        file.write(text)


def elsewhere(path, text):
    in_place(f"{path}.new", text)
    os.replace(f"{path}.new", path)


def saves():
    """A drive: write a file six times, each time other text, elsewhere first."""
    size = SIZE

    def drive():
        for number in range(1, 7):
            with open("there/file.new", "w") as file:
                file.write(str(number) * size)
            os.replace("there/file.new", "there/file")

    return drive


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("0" * SIZE)
    return tmp_path


@pytest.mark.parametrize("nth", [1, 3])
def test_it_is_killed_at_the_nth_writing_and_what_was_renamed_is_whole(folder, nth):
    evidence = launch(saves(), 1, process_group=False, cwd=folder, kill=Kill(0, "there", nth))
    assert evidence.killed == 0
    assert (evidence.ranks[0].end, evidence.ranks[0].signal) == ("killed", "SIGKILL")
    text = (folder / "there" / "file").read_text()
    assert len(text) == SIZE
    assert int(text[0]) >= nth - 1


def test_the_rank_that_was_named_is_killed_whoever_writes(folder):
    def drive(number):
        if number == 0:
            with open("there/other", "w") as file:
                file.write("x")
        while True:
            time.sleep(0.01)

    evidence = launch(
        drive, 2, inputs=[0, 1], process_group=False, cwd=folder, kill=Kill(1, "there")
    )
    assert evidence.killed == 1
    assert evidence.ranks[1].end == "killed"
    assert evidence.diagnosis.kind == "killed"


def test_it_is_killed_sooner_where_it_writes_the_file_in_place(folder):
    def drive():
        for name in ("other", "file", "file"):
            with open(f"there/{name}", "w") as file:
                file.write("x")
                file.flush()
                while name == "file":
                    time.sleep(0.01)

    kill = Kill(0, "there", 5, "file")
    evidence = launch(drive, 1, process_group=False, cwd=folder, kill=kill)
    assert evidence.killed == 0
    assert (folder / "there" / "file").exists()  # empty where it was killed before its first byte


def test_a_rank_cannot_take_away_what_is_watched_for(folder):
    def drive():
        links = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
        return [os.readlink(link) for link in links if os.path.exists(link)]

    evidence = launch(drive, 1, process_group=False, cwd=folder, kill=Kill(0, "there"))
    assert evidence.diagnosis is None, evidence.diagnosis
    assert not [what for what in evidence.values[0] if "inotify" in what]


def test_files_for_show_bring_on_no_kill_before_the_file_is_replaced(folder):
    def drive():
        for number in range(1, 4):
            for name in ("show", "file.new"):
                with open(f"there/{name}", "w") as file:
                    file.write(str(number))
            os.replace("there/file.new", "there/file")
            while number == 3:
                time.sleep(0.01)

    kill = Kill(0, "there", 2, "file", replaced=2)
    evidence = launch(drive, 1, process_group=False, cwd=folder, kill=kill)
    assert (evidence.killed, evidence.broken) == (0, "")
    assert (folder / "there" / "file").read_text() in ("2", "3")
    assert (folder / "there" / "show").read_text() == "3"


def test_a_removal_is_in_the_evidence_though_the_file_is_back(folder):
    def drive():
        os.remove("there/file")
        os.link("other", "there/file")
        while True:
            time.sleep(0.01)

    in_place(folder / "other", "x")
    kill = Kill(0, "there", 1, "file", replaced=1)
    evidence = launch(drive, 1, process_group=False, cwd=folder, kill=kill)
    assert (evidence.killed, evidence.broken) == (0, "it was removed")


@pytest.mark.parametrize("there", ["there", "nowhere"])
def test_without_a_writing_nobody_is_killed(folder, there):
    def drive():
        with open("there/file") as file:
            return len(file.read())

    evidence = launch(drive, 1, process_group=False, cwd=folder, kill=Kill(0, there))
    assert (evidence.killed, evidence.no_kill) == (None, "")
    assert evidence.values == (SIZE,)


# A warm server on a machine on which nothing more can be watched
CANNOT_WATCH = """
import ctypes, errno
from hpml.ranks import inotify
from hpml.ranks.server import server
class Library:
    def inotify_init1(self, flags):
        ctypes.set_errno(errno.EMFILE)
        return -1
class Cannot:
    CDLL = staticmethod(lambda *_, **__: Library())
    get_errno = ctypes.get_errno
inotify.ctypes = Cannot
server.main()
"""


def test_where_nothing_can_be_watched_the_evidence_names_why(folder, monkeypatch):
    monkeypatch.setattr(warm, "_MAIN", CANNOT_WATCH)
    server = warm.WarmServer()
    try:
        with warm.using(server):
            evidence = launch(lambda: 1, 1, process_group=False, cwd=folder, kill=Kill(0, "there"))
    finally:
        server.kill()
    assert (evidence.killed, evidence.values) == (None, (1,))
    assert evidence.no_kill == "inotify_init1: Too many open files"


def test_a_folder_that_cannot_be_watched_takes_no_descriptor(folder):
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No such file"):
        killing.Writings(str(folder / "nowhere"))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def while_open(path, text):
    with open(f"{path}.new", "w") as file:
        file.write(text)
        file.flush()
        os.replace(f"{path}.new", path)


def with_a_backup(path, text):
    os.link(path, f"{path}.old")
    elsewhere(path, text)
    path.chmod(0o600)
    os.remove(f"{path}.old")


def from_outside(path, text):
    in_place(path.parent.parent / "outside", text)
    os.replace(path.parent.parent / "outside", path)


@pytest.mark.parametrize("replaces", [elsewhere, while_open, with_a_backup, from_outside])
def test_a_file_that_is_replaced_in_one_step_is_never_broken(folder, replaces):
    watched = folder / "there"
    seen = killing.Writings(str(watched), "file")
    for text in ("x", "y"):
        replaces(watched / "file", text)
        assert seen.look() > 0
        assert seen.broken == ""
    seen.close()


def later(path, change):
    """Change a file until its ctime is later than now: file systems' clocks stand still."""
    now = time.time_ns()
    while path.stat().st_ctime_ns <= now:
        change()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_second_name_and_another_mode_are_no_writings(folder, replaced):
    path, second = folder / "there" / "file", folder / "there" / "second"
    seen = killing.Writings(str(folder / "there"), "file")
    if replaced:
        elsewhere(path, "x")
        seen.look()
    later(path, lambda: path.chmod(0o640))
    seen.look()
    os.link(path, second)
    later(path, lambda: path.chmod(0o600))
    seen.look()
    second.unlink()
    later(path, lambda: os.utime(path, ns=(0, 0)))
    seen.look()
    assert seen.broken == ""
    seen.close()


def test_what_is_too_large_to_compare_may_not_change_at_all(folder, monkeypatch):
    monkeypatch.setattr(killing, "_COMPARED", SIZE - 1)
    path = folder / "there" / "file"
    seen = killing.Writings(str(folder / "there"), "file")
    seen.look()
    assert seen.broken == ""
    later(path, lambda: path.chmod(0o640))
    seen.look()
    assert "by another name" in seen.broken
    seen.close()


def test_a_file_that_is_replaced_again_meanwhile_is_not_broken(folder, monkeypatch):
    path = folder / "there" / "file"
    seen = killing.Writings(str(folder / "there"), "file")
    elsewhere(path, "x")
    really = os.read

    def read_late(*arguments):
        events = really(*arguments)
        elsewhere(path, "y")
        later = time.time_ns() + 10**9
        os.utime(path, ns=(later, later))
        return events

    monkeypatch.setattr(os, "read", read_late)
    seen.look()
    assert seen.broken == ""
    seen.close()


def removed_first(path):
    in_place(f"{path}.new", "x")
    os.remove(path)
    os.rename(f"{path}.new", path)


def moved_away(path):
    os.rename(path, f"{path}.old")
    os.rename(f"{path}.old", path)


def a_link(path):
    in_place(path.parent / "other", "x")
    os.symlink("other", f"{path}.link")
    os.replace(f"{path}.link", path)


def by_another_name(path):
    os.link(path, path.parent.parent / "outside")
    in_place(path.parent.parent / "outside", "x")
    later = time.time_ns() + 10**9  # file systems' clocks stand still for some milliseconds
    os.utime(path.parent.parent / "outside", ns=(later, later))
    in_place(path.parent / "other", "x")


def through_a_map_with_its_old_times(path):
    before = path.stat()
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:1] = b"x"
        memory.flush()
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    later(path, lambda: os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns)))


def folder_moved(path):
    os.rename(path.parent, path.parent.parent / "elsewhere")


@pytest.mark.parametrize(
    ("does", "how"),
    [
        (removed_first, "removed"),
        (moved_away, "removed"),
        (lambda path: in_place(path, "x"), "in place"),
        (a_link, "a link"),
        (by_another_name, "by another name"),
        (through_a_map_with_its_old_times, "a map of memory"),
        (folder_moved, "its folder was moved"),
    ],
)
def test_a_moment_without_a_whole_file_is_seen(folder, does, how):
    seen = killing.Writings(str(folder / "there"), "file")
    assert seen.look() == 0
    assert seen.broken == ""
    does(folder / "there" / "file")
    seen.look()
    assert how in seen.broken
    seen.close()


def test_writings_are_counted_once_however_they_are_done(folder):
    watched = folder / "there"
    seen = killing.Writings(str(watched))
    assert seen.look() == 0
    in_place(watched / "file", "x" * SIZE)
    assert seen.look() == 1
    elsewhere(watched / "file", "y" * SIZE)
    assert seen.look() == 2
    in_place(folder / "outside", "z")
    os.replace(folder / "outside", watched / "file")
    assert seen.look() == 3
    (watched / "file").read_text()
    (watched / "file").unlink()
    assert seen.look() == 3
    in_place(folder / "outside", "z")
    shutil.copyfile(folder / "outside", watched / "file")
    assert seen.look() == 4
    seen.close()
