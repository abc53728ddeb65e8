"""Which files there are in the folder of a launch, seen out of the ranks' reach.

A rank's own word for it is worth nothing: an answer may replace whatever looks at files there.
"""

import os
import stat
from collections import deque
from collections.abc import Iterable, Mapping

MAX_FILES = 256
MAX_DEPTH = 3  # folders above a file; a deeper folder is listed as one file
MAX_NAME = 100  # characters


def files_in(folder: str) -> dict[str, int] | None:
    """The size in bytes of each file below `folder`, by its path from there; no file is opened.

    What is neither a file nor a folder that can be listed has size 0. None where there are more
    than MAX_FILES files and folders.
    """
    found: dict[str, int] = {}
    seen = 0
    folders = deque([("", 0)])
    while folders:
        path, depth = folders.popleft()
        try:
            entries = os.scandir(os.path.join(folder, path))
        except OSError:  # removed meanwhile, or closed to everybody
            if path:
                found[_shown(path)] = 0
            continue
        with entries:
            for entry in entries:
                seen += 1
                if seen > MAX_FILES:
                    return None
                below = os.path.join(path, entry.name)
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:  # removed meanwhile
                    continue
                if stat.S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                    folders.append((below, depth + 1))
                else:
                    regular = stat.S_ISREG(status.st_mode)
                    found[_shown(below)] = status.st_size if regular else 0
    return found


def files_in_all(folders: Iterable[str]) -> dict[str, int] | None:
    """The files of all folders together, by their paths from there; None if one has too many."""
    found: dict[str, int] = {}
    for folder in folders:
        files = files_in(folder)
        if files is None:
            return None
        found |= files
    return found


def first_below(path: str, files: Mapping[str, int]) -> str | None:
    """The name of the first of `files` that is `path` or below it; None without any."""
    names = sorted(name for name in files if name == path or name.startswith(f"{path}/"))
    return os.path.basename(names[0]) if names else None


def _shown(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")[:MAX_NAME]
