"""Read an untrusted folder: regular files of bounded size; no links are followed."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hpml.answer.cells import LARGEST
from hpml.grading import archive
from hpml.grading.input_file import (
    ARCHIVE,
    Found,
    is_ignored,
    is_wanted,
    not_read,
    suffix,
    too_large,
)

DEPTH = 20  # folders within folders


def walk(path: Path, scratch: Path, below: tuple[str, ...] = ()) -> Iterator[Found]:
    """The files in a folder and in its zip archives, in the order of their names."""
    try:
        with os.scandir(path) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        yield Found(below, fault=f"cannot be read: {error.strerror}")
        return
    for entry in entries:
        parts = (*below, entry.name)
        if is_ignored((entry.name,)):
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield from read(Path(entry.path), parts, scratch, whole_class=False)
        elif len(parts) > DEPTH:
            yield Found(parts, fault=f"is deeper than {DEPTH} folders")
        else:
            yield from walk(Path(entry.path), scratch, parts)


def read(
    path: Path, parts: tuple[str, ...], scratch: Path, *, whole_class: bool
) -> Iterator[Found]:
    """One file as `parts`, or the content of a zip archive (see `archive.walk`)."""
    wanted = is_wanted(path.name) or suffix(path.name) == ARCHIVE
    opened = _open(path, wanted)
    if isinstance(opened, str):
        yield Found(parts, fault=opened)
        return
    if opened is None:
        yield Found(parts, fault=not_read(path.name))
        return
    with opened as file:
        if suffix(path.name) == ARCHIVE:
            yield from archive.walk(file, parts, scratch, whole_class=whole_class)
            return
        limit = LARGEST[suffix(path.name)]
        try:
            data = file.read(limit + 1)
        except OSError as error:
            yield Found(parts, fault=f"cannot be read: {error.strerror}")
            return
    if len(data) > limit:
        yield Found(parts, fault=too_large(path.name))
    else:
        yield Found(parts, data)


def _open(path: Path, wanted: bool) -> IO[bytes] | str | None:
    """The file, opened where it is `wanted`; or what is wrong with it."""
    try:
        kind = os.lstat(path).st_mode
        if stat.S_ISLNK(kind):
            return "is a symbolic link, which is not followed"
        if not stat.S_ISREG(kind):
            return "is not a regular file"
        if not wanted:
            return None
        # The path may have changed since lstat, so the open file is checked again. Without
        # O_NONBLOCK, opening a FIFO waits for a writer.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        file = os.fdopen(handle, "rb")
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            file.close()
            return "is not a regular file"
        return file
    except OSError as error:
        return f"cannot be read: {error.strerror}"
