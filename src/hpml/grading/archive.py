"""Read untrusted zip archives: bounded, in memory, without unpacking to files.

No file is written under a name from the archive. Every limit counts the bytes that are really read.
An entry over a limit is refused by name; the others are still read.
"""

import errno
import shutil
import stat
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hpml.answer.cells import LARGEST
from hpml.errors import UserError
from hpml.grading.input_file import (
    ARCHIVE,
    Found,
    is_ignored,
    is_wanted,
    not_read,
    suffix,
    too_large,
)

DEPTH = 2  # a class's archive, and in it one per person
ENTRIES = 20_000
DIRECTORY = 8_000_000  # bytes of the central directory, which ZipFile reads whole
INNER = 50_000_000  # bytes of an archive within an archive
TOTAL = 200_000_000  # bytes that are read from an archive within a submission
RATIO = 200  # deflate reaches 1032 on zeros, notebooks about 20; counts above a megabyte
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # bz2 and lzma cannot be read bounded


def walk(
    file: IO[bytes], below: tuple[str, ...], scratch: Path, *, whole_class: bool
) -> Iterator[Found]:
    """Yield the files of the archive in `file`, sorted by name; each path begins with `below`.

    With `whole_class` the archive may be of any size; otherwise it holds one person's files. An
    inner archive is copied to an unnamed file in `scratch`. A fault of the whole archive is one
    Found with the path `below`.
    """
    budget = None if whole_class else [TOTAL]
    yield from _walk(file, below, scratch, budget, DEPTH if whole_class else DEPTH - 1)


def _walk(
    file: IO[bytes], below: tuple[str, ...], scratch: Path, budget: list[int] | None, depth: int
) -> Iterator[Found]:
    opened = _open(file)
    if isinstance(opened, str):
        yield Found(below, fault=opened)
        return
    with opened as archive:
        entries = [(*_path(entry), entry) for entry in archive.infolist()]
        count = Counter(parts for parts, fault, _ in entries if not fault)
        repeated: set[tuple[str, ...]] = set()
        for parts, fault, entry in sorted(entries, key=lambda each: each[0]):
            if not parts or (entry.is_dir() and not fault):
                continue
            place = below + parts
            if not fault and is_ignored(parts):
                continue
            fault = fault or _fault(entry)
            if not fault and count[parts] > 1:
                if parts not in repeated:
                    repeated.add(parts)
                    yield Found(place, fault="is in the archive more than once")
            elif fault:
                yield Found(place, fault=fault)
            elif suffix(parts[-1]) == ARCHIVE:
                yield from _inner(archive, entry, place, scratch, budget, depth - 1)
            elif is_wanted(parts[-1]):
                yield _read(archive, entry, place, budget)
            else:
                yield Found(place, fault=not_read(parts[-1]))


def _open(file: IO[bytes]) -> zipfile.ZipFile | str:
    """The archive, or what is wrong with it. ZipFile reads the central directory whole."""
    try:
        # Private, but ZipFile itself uses it: a parser of our own could find another size.
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
        if not end:
            return "is not a zip archive"
        size, directory = file.seek(0, 2), end[zipfile._ECD_SIZE]  # type: ignore[attr-defined]
        if directory > DIRECTORY:
            return f"is a zip archive with a list of entries of {directory // 10**6} MB"
        archive = zipfile.ZipFile(file)
    except Exception as error:  # a broken structure may raise anything
        return f"is a zip archive that cannot be read: {_message(error)}"
    entries = archive.infolist()
    if len(entries) > ENTRIES:
        return f"is a zip archive of {len(entries)} entries, at most {ENTRIES} are read"
    if sum(entry.compress_size for entry in entries) > size:
        return "is a zip bomb: its entries share their bytes"
    return archive


def _path(entry: zipfile.ZipInfo) -> tuple[tuple[str, ...], str]:
    """An entry's path without parts that lead out of the archive, and its fault, if any."""
    name = entry.orig_filename.replace("\\", "/")  # ZipInfo.filename ends at a NUL
    parts = name.split("/")
    kept = tuple(part for part in parts if part not in ("", ".", ".."))
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
        return kept, "has control characters in its name"
    if ".." in parts or name.startswith("/") or parts[0][1:2] == ":":
        return kept, "has a path that leads out of the archive"
    return kept, ""


def _fault(entry: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "is a symbolic link, which is not followed"
    if kind not in (0, stat.S_IFREG):
        return "is not a regular file"
    if entry.flag_bits & 0x1:
        return "is encrypted"
    if entry.compress_type not in _METHODS:
        return (
            f"is packed by zip's method {entry.compress_type}: use deflate, as zip does by itself"
        )
    if entry.file_size > 1_000_000 and entry.file_size > RATIO * entry.compress_size:
        return f"is a zip bomb: {entry.file_size} bytes packed into {entry.compress_size}"
    return ""


def _read(
    archive: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    place: tuple[str, ...],
    budget: list[int] | None,
) -> Found:
    limit = LARGEST[suffix(place[-1])]
    if entry.file_size > limit:
        return Found(place, fault=too_large(place[-1]))
    if budget is not None and entry.file_size > budget[0]:
        return Found(place, fault=f"is beyond {TOTAL // 10**6} MB in one archive, not read")
    try:
        with archive.open(entry) as file:
            data = file.read(limit + 1)
    except Exception as error:
        return Found(place, fault=f"cannot be read from its archive: {_message(error)}")
    if len(data) != entry.file_size:
        sizes = f"it declares {entry.file_size} bytes and has {len(data)}"
        return Found(place, fault=f"cannot be read from its archive: {sizes}")
    if budget is not None:
        budget[0] -= len(data)
    return Found(place, data)


def _inner(
    archive: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    place: tuple[str, ...],
    scratch: Path,
    budget: list[int] | None,
    depth: int,
) -> Iterator[Found]:
    if depth < 1:
        yield Found(place, fault="is an archive too deep within archives")
        return
    if entry.file_size > INNER:
        yield Found(place, fault=f"is an archive larger than {INNER // 10**6} MB")
        return
    with tempfile.TemporaryFile(dir=scratch) as copy:
        try:
            with archive.open(entry) as file:  # ends at file_size
                shutil.copyfileobj(file, copy)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                full = "there is no room to unpack archives in: free some"  # not the owner's fault
                raise UserError(f"{scratch}: {full}") from None
            yield Found(place, fault=f"cannot be read from its archive: {_message(error)}")
            return
        yield from _walk(copy, place, scratch, budget or [TOTAL], depth)


def _message(error: Exception) -> str:
    return str(error) or type(error).__name__
