"""How often files of a folder are opened, by whichever process: counted by the kernel, by inotify.

The folder's own opens (to list it) are left out. Two equal events in a row become one where nobody
has read the first, so closes are watched as well: between two opens of a file by one process there
is its close.
"""

import os
from pathlib import Path

from hpml.ranks import inotify

BUFFER = 2**16  # bytes of a read


class Opens:
    """Counts from here on how often a file in `folder` (and in the folders below) is opened.

    `drain` must be called before the kernel's queue is full, which takes 16,384 events where
    nobody has changed it (/proc/sys/fs/inotify/max_queued_events): an open and its close are two.
    Raises OSError where the folder cannot be watched, and when events were lost.
    """

    def __init__(self, folder: Path):
        folders = (inside for inside, _, _ in os.walk(folder))
        self._watched = inotify.Watched(folders, inotify.OPEN | inotify.CLOSE)
        self.count = 0
        self.reads = 0  # read calls of `drain`, which the kernel counts as its caller's own
        self.bytes = 0  # what they returned
        self.drain()
        self.count = 0  # os.walk has opened the folders

    def drain(self) -> int:
        """Take what the kernel has queued; the number of opens until now."""
        while True:
            self.reads += 1
            content = self._watched.read(BUFFER)
            if not content:
                return self.count
            self.bytes += len(content)
            for mask, *_ in inotify.events(content):
                if mask & inotify.OVERFLOW:
                    raise OSError("inotify: the queue was full, opens were lost: drain more often")
                self.count += bool(mask & inotify.OPEN and not mask & inotify.IS_FOLDER)

    def close(self) -> None:
        self._watched.close()

    def __enter__(self) -> "Opens":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
