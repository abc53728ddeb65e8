"""A file found in a folder or an archive, and which files are read."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from hpml.answer.cells import LARGEST

ARCHIVE = ".zip"
OTHER_ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
_MADE_BY_MACHINES = ("__MACOSX", "__pycache__", "Thumbs.db", "desktop.ini")


@dataclass(frozen=True)
class Found:
    """A file of what was handed in. If it was not read, `data` is None and `fault` is the reason.

    Neither data nor fault: a file of a kind that is not wanted.
    """

    parts: tuple[str, ...]  # of its path, below what was handed in
    data: bytes | None = None
    fault: str = ""


def suffix(name: str) -> str:
    """The ending of a file's name, in small letters."""
    return PurePosixPath(name).suffix.lower()


def is_wanted(name: str) -> bool:
    """Whether a file may hold answers."""
    return suffix(name) in LARGEST


def may_hold_answers(name: str, beside_others: bool) -> bool:
    """Whether a file that cannot be read may hold answers.

    One without an ending, or an archive of another kind, is taken for data `beside_others`: files
    with answers that can be read.
    """
    others = () if beside_others else (*OTHER_ARCHIVES, "")
    return suffix(name) in (*LARGEST, ARCHIVE, *others)


def is_ignored(parts: tuple[str, ...]) -> bool:
    """Whether a program added it: checkpoints, hidden files, what macOS adds to a zip."""
    return any(part.startswith(".") or part in _MADE_BY_MACHINES for part in parts)


def not_read(name: str) -> str:
    """The fault of a file that is not read; empty if it need not be reported."""
    if suffix(name) in OTHER_ARCHIVES:
        return "is an archive of a kind that is not read: hand in a .zip"
    return ""


def too_large(name: str) -> str:
    """The fault of a wanted file over its size limit."""
    return f"is larger than {LARGEST[suffix(name)] // 10**6} MB: clear its outputs first"
