"""A rank is killed while it writes, from outside."""

import os
import shutil
import time

import pytest

from hpml.ranks import Kill, killing, launch

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


@pytest.mark.parametrize("there", ["there", "nowhere"])
def test_without_a_writing_nobody_is_killed(folder, there):
    def drive():
        with open("there/file") as file:
            return len(file.read())

    evidence = launch(drive, 1, process_group=False, cwd=folder, kill=Kill(0, there))
    assert evidence.killed is None
    assert evidence.values == (SIZE,)


def test_writings_are_counted_once_however_they_are_done(folder):
    watched = folder / "there"
    seen = killing.Writings(str(watched))
    assert seen.look() == 0
    in_place(watched / "file", "x" * SIZE)
    assert seen.look() == 1
    elsewhere(watched / "file", "y" * SIZE)
    assert seen.look() == 2
    assert seen.written == {"file", "file.new"}
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
