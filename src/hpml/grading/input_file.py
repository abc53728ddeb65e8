"""A file found in a folder or an archive, and which files are read."""

from dataclasses import dataclass
from pathlib import PurePosixPath

LARGEST = {".ipynb": 20_000_000, ".py": 1_000_000}  # bytes; beyond it, no person wrote it
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
