"""Opens of files, counted by the kernel: by any process, and each time."""

import subprocess
import sys

import pytest

from hpml.measure import opens
from hpml.measure.opens import Opens


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "below").mkdir()
    for name in ("a", "b", "below/c"):
        (tmp_path / name).write_bytes(b"content")
    return tmp_path


def test_every_open_counts_also_in_folders_below(folder):
    with Opens(folder) as counted:
        for name in ("a", "b", "below/c"):
            (folder / name).read_bytes()
        assert counted.drain() == 3


def test_a_file_opened_again_counts_again(folder):
    with Opens(folder) as counted:
        for _ in range(5):
            (folder / "a").read_bytes()
        assert counted.drain() == 5


def test_listing_a_folder_is_no_open(folder):
    with Opens(folder) as counted:
        assert len(list(folder.iterdir())) == 3
        assert counted.drain() == 0


def test_what_happened_before_does_not_count(folder):
    (folder / "a").read_bytes()
    with Opens(folder) as counted:
        assert counted.drain() == 0


def test_opens_of_another_process_count(folder):
    with Opens(folder) as counted:
        subprocess.run([sys.executable, "-c", f"open({str(folder / 'a')!r}).close()"], check=True)
        assert counted.drain() == 1


def test_reads_of_the_queue_are_known(folder, monkeypatch):
    monkeypatch.setattr(opens, "BUFFER", 64)  # an event, or two
    with Opens(folder) as counted:
        before = counted.reads, counted.bytes
        for _ in range(3):
            (folder / "a").read_bytes()
        assert counted.drain() == 3
        assert counted.reads - before[0] >= 4  # the last one finds nothing
        assert counted.bytes - before[1] == 6 * 32  # three opens, three closes


def test_lost_events_are_an_error(folder, monkeypatch):
    with Opens(folder) as counted:
        monkeypatch.setattr(opens.inotify, "OVERFLOW", opens.inotify.OPEN)
        (folder / "a").read_bytes()
        with pytest.raises(OSError, match="opens were lost"):
            counted.drain()


def test_a_folder_that_is_a_file_cannot_be_watched(folder, monkeypatch):
    monkeypatch.setattr(opens.os, "walk", lambda _: [(str(folder / "missing"), [], [])])
    with pytest.raises(OSError, match="inotify_add_watch: No such file"):
        Opens(folder)
