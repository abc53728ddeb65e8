"""Archives that were made to do harm are refused by name, and what else is in them is read."""

import errno
import io
import random
import stat
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZipFile, ZipInfo

import pytest

from hpml.errors import UserError
from hpml.grading import archive, input_file
from hpml.grading.archive import walk

NOTEBOOK = b'{"nbformat": 4, "cells": []}'


def read(data: bytes, scratch: Path, *, whole_class: bool = True) -> dict[str, bytes | str]:
    """By path, what was read, or why it was not; files of no interest are left out."""
    files = walk(io.BytesIO(data), (), scratch, whole_class=whole_class)
    read = [("/".join(each.parts), each.fault or each.data) for each in files]
    assert len({name for name, _ in read}) == len(read)
    assert list(scratch.iterdir()) == []
    return {name: what for name, what in read if what is not None}


def zipped(*entries: tuple[str | ZipInfo, bytes], method: int = ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with ZipFile(file, "w", method) as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of duplicate names
        for name, data in entries:
            made.writestr(name, data, method)
    return file.getvalue()


def of_kind(name: str, kind: int) -> ZipInfo:
    entry = ZipInfo(name)
    entry.create_system, entry.external_attr = 3, (kind | 0o644) << 16
    return entry


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_an_archive_is_read_in_the_order_of_its_names(scratch):
    data = zipped(("b/2.ipynb", b"2"), ("a.py", b"1"), ("b/1.ipynb", b"3"), ("a.pdf", b""))
    assert list(read(data, scratch).items()) == [
        ("a.py", b"1"),
        ("b/1.ipynb", b"3"),
        ("b/2.ipynb", b"2"),
    ]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../alice.ipynb", "alice.ipynb"),
        ("a/../../../etc/b.ipynb", "a/etc/b.ipynb"),
        ("/etc/b.ipynb", "etc/b.ipynb"),
        ("..\\..\\b.ipynb", "b.ipynb"),
        ("C:\\b.ipynb", "C:/b.ipynb"),
        ("../../etc/cron.d/run.sh", "etc/cron.d/run.sh"),
    ],
)
def test_a_path_that_leads_out_is_refused(scratch, name, kept):
    entry = ZipInfo("x")
    entry.filename = name
    files = read(zipped((entry, NOTEBOOK), ("good.ipynb", NOTEBOOK)), scratch)
    assert files == {kept: "has a path that leads out of the archive", "good.ipynb": NOTEBOOK}


def test_a_name_with_a_nul_or_an_escape_is_refused(scratch):
    data = zipped(("aXb.ipynb", NOTEBOOK), ("c\x1b[2J.ipynb", NOTEBOOK), ("d.ipynb", b"d"))
    files = read(data.replace(b"aXb", b"a\0b"), scratch)
    fault = "has control characters in its name"
    assert files == {"a\0b.ipynb": fault, "c\x1b[2J.ipynb": fault, "d.ipynb": b"d"}


def test_what_is_no_regular_file_is_refused(scratch):
    data = zipped(
        (of_kind("link.ipynb", stat.S_IFLNK), b"/etc/passwd"),
        (of_kind("pipe.ipynb", stat.S_IFIFO), b""),
        (of_kind("device.ipynb", stat.S_IFCHR), b""),
        (of_kind("folder", stat.S_IFLNK), b"/"),
        (of_kind("good.ipynb", stat.S_IFREG), NOTEBOOK),
    )
    link = "is a symbolic link, which is not followed"
    assert read(data, scratch) == {
        "link.ipynb": link,
        "folder": link,
        "pipe.ipynb": "is not a regular file",
        "device.ipynb": "is not a regular file",
        "good.ipynb": NOTEBOOK,
    }


def test_a_name_that_is_there_twice_is_refused_once(scratch):
    data = zipped(
        ("a.ipynb", b"1"),
        ("a.ipynb", b"2"),
        ("./b.ipynb", b"1"),
        ("b.ipynb", b"1"),
        ("c.ipynb", b"3"),
    )
    fault = "is in the archive more than once"
    assert read(data, scratch) == {"a.ipynb": fault, "b.ipynb": fault, "c.ipynb": b"3"}


def test_a_bomb_is_refused_before_it_is_unpacked(scratch):
    bomb = zipped(("a.ipynb", bytes(15_000_000)), ("b.ipynb", b"b"))
    tracemalloc.start()
    files = read(bomb, scratch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert files["a.ipynb"].startswith("is a zip bomb: 15000000 bytes packed into ")
    assert files["b.ipynb"] == b"b"
    assert peak < 3_000_000


def test_a_large_notebook_is_refused_by_its_size(scratch, monkeypatch):
    monkeypatch.setitem(input_file.LARGEST, ".ipynb", 1_000_000)
    noise = random.Random(1).randbytes(1_000_001)
    files = read(zipped(("a.ipynb", noise), ("b.ipynb", noise[1:-1])), scratch)
    assert files["a.ipynb"] == "is larger than 1 MB: clear its outputs first"
    assert len(files["b.ipynb"]) == 999_999


def resized(data: bytes, name: bytes, size: int) -> bytes:
    """The archive with another size of one entry in its two headers."""
    changed = bytearray(data)
    for mark, at, start in ((b"PK\1\2", 24, 46), (b"PK\3\4", 22, 30)):
        place = -1
        while (place := data.find(mark, place + 1)) >= 0:
            if data.startswith(name, place + start):
                changed[place + at : place + at + 4] = struct.pack("<I", size)
    return bytes(changed)


def test_a_size_that_is_not_true_is_noticed(scratch):
    good = zipped(("a.ipynb", bytes(2_000_000)), ("b.ipynb", b"b" * 50))
    smaller = read(resized(good, b"a.ipynb", 100), scratch)
    assert smaller["a.ipynb"].startswith("cannot be read from its archive: Bad CRC-32")
    assert smaller["b.ipynb"] == b"b" * 50
    larger = read(resized(good, b"b.ipynb", 1000), scratch)
    assert larger["b.ipynb"] == "cannot be read from its archive: it declares 1000 bytes and has 50"


def test_entries_that_share_their_bytes_are_refused(scratch):
    one = zipped(("a.ipynb", bytes(range(256)) * 4000))
    start = one.index(b"PK\1\2")
    directory, end = one[start : one.index(b"PK\5\6")], bytearray(one[one.index(b"PK\5\6") :])
    many = directory * 50
    end[8:12] = struct.pack("<HH", 50, 50)
    end[12:16] = struct.pack("<I", len(many))
    files = read(one[:start] + many + bytes(end), scratch)
    assert files == {"": "is a zip bomb: its entries share their bytes"}


def test_too_many_entries_are_refused(scratch, monkeypatch):
    data = zipped(*((f"{n}.ipynb", b"") for n in range(11)))
    monkeypatch.setattr(archive, "ENTRIES", 10)
    assert read(data, scratch) == {"": "is a zip archive of 11 entries, at most 10 are read"}
    monkeypatch.setattr(archive, "DIRECTORY", 500)
    opened = []
    monkeypatch.setattr(zipfile, "ZipFile", opened.append)
    (fault,) = read(data, scratch).values()
    assert fault.startswith("is a zip archive with a list of entries of")
    assert opened == []  # which would have read that list


def test_one_persons_archive_has_a_limit_in_all_and_a_class_has_none(scratch, monkeypatch):
    monkeypatch.setattr(archive, "TOTAL", 250)
    data = zipped(*((f"{n}.ipynb", bytes(100)) for n in range(4)))
    files = read(data, scratch, whole_class=False)
    beyond = "is beyond 0 MB in one archive, not read"
    assert list(files.values()) == [bytes(100), bytes(100), beyond, beyond]
    assert list(read(data, scratch).values()) == [bytes(100)] * 4
    inner = read(zipped(("alice.zip", data), ("bob.zip", data)), scratch)
    assert list(inner.values()) == [bytes(100), bytes(100), beyond, beyond] * 2


def test_an_encrypted_entry_is_refused(scratch):
    data = bytearray(zipped(("a.ipynb", NOTEBOOK)))
    data[data.index(b"PK\1\2") + 8] |= 1
    data[data.index(b"PK\3\4") + 6] |= 1
    assert read(bytes(data), scratch) == {"a.ipynb": "is encrypted"}


@pytest.mark.parametrize("method", [ZIP_BZIP2, ZIP_LZMA])
def test_a_method_that_cannot_be_read_bounded_is_refused(scratch, method):
    (fault,) = read(zipped(("a.ipynb", NOTEBOOK), method=method), scratch).values()
    assert fault == f"is packed by zip's method {method}: use deflate, as zip does by itself"


def test_a_corrupt_archive_is_refused(scratch):
    good = zipped(*((f"{n}.ipynb", bytes(range(256))) for n in range(20)))
    assert read(b"", scratch) == {"": "is not a zip archive"}
    assert read(good[:-30], scratch) == {"": "is not a zip archive"}
    no_list = read(good.replace(b"PK\1\2", b"PK\7\7", 1), scratch)
    assert no_list[""].startswith("is a zip archive that cannot be read: ")
    for place in range(0, len(good), 7):  # whatever is broken, there is a word for it
        broken = bytearray(good)
        broken[place] ^= 0xFF
        read(bytes(broken), scratch)
    flipped = bytearray(good)
    flipped[good.index(b"0.ipynb") + 20] ^= 0xFF
    assert sum(isinstance(what, bytes) for what in read(bytes(flipped), scratch).values()) == 19


def test_archives_within_archives_are_read_one_deep(scratch):
    innermost = zipped(("deep.ipynb", NOTEBOOK))
    inner = zipped(("a.ipynb", NOTEBOOK), ("more.zip", innermost))
    files = read(zipped(("alice/all.ZIP", inner), ("bob.zip", b"PK\5\6")), scratch)
    assert files == {
        "alice/all.ZIP/a.ipynb": NOTEBOOK,
        "alice/all.ZIP/more.zip": "is an archive too deep within archives",
        "bob.zip": "is not a zip archive",
    }
    one = read(inner, scratch, whole_class=False)
    assert one == {"a.ipynb": NOTEBOOK, "more.zip": "is an archive too deep within archives"}


def test_a_large_archive_within_is_refused(scratch, monkeypatch):
    monkeypatch.setattr(archive, "INNER", 100)
    files = read(zipped(("a.zip", zipped(("a.ipynb", b"a" * 50)))), scratch)
    assert files == {"a.zip": "is an archive larger than 0 MB"}


def test_a_full_disk_is_no_fault_of_an_archive(scratch, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    data = zipped(("alice.zip", zipped(("a.ipynb", NOTEBOOK))))
    monkeypatch.setattr(archive.shutil, "copyfileobj", full)
    with pytest.raises(UserError, match="scratch: there is no room to unpack archives in"):
        read(data, scratch)


def test_other_archives_are_said_and_what_macs_add_is_not(scratch):
    data = zipped(("a.rar", b""), ("__MACOSX/a.ipynb", b""), ("x/.DS_Store", b""), ("._a.py", b""))
    assert read(data, scratch) == {
        "a.rar": "is an archive of a kind that is not read: hand in a .zip"
    }
