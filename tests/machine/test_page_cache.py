"""Pages in the kernel's cache: there after a read, gone after a drop."""

import os
from pathlib import Path

import pytest

from hpml.machine.page_cache import PAGE, drop, resident


def test_a_read_brings_the_pages_that_a_drop_took_away(disk):
    (disk / "below").mkdir()
    for name in ("a", "below/b"):
        (disk / name).write_bytes(os.urandom(20 * PAGE + 1))
    assert drop(disk) == 0.0
    assert resident(disk) == 0.0
    (disk / "a").read_bytes()
    assert resident(disk) == 0.5
    assert drop(disk) == 0.0


def test_dropping_changes_no_byte(tmp_path):
    content = os.urandom(3 * PAGE)
    (tmp_path / "a").write_bytes(content)
    drop(tmp_path)
    assert (tmp_path / "a").read_bytes() == content


def test_empty_files_have_no_pages(tmp_path):
    (tmp_path / "empty").touch()
    assert resident(tmp_path) == 1.0


def test_a_tmpfs_keeps_its_pages():
    shared = Path("/dev/shm")
    if not shared.is_dir() or not os.access(shared, os.W_OK):
        pytest.skip("there is no /dev/shm to write to")
    folder = shared / f"hpml-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / "a").write_bytes(b"1" * PAGE)
        assert drop(folder) == 1.0
    finally:
        (folder / "a").unlink()
        folder.rmdir()
