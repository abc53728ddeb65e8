"""What a piece of reading costs: opens, reads, bytes and page faults as the kernel counts them.

- `opens`: inotify on the folder. Every open of a file in it; not the listing of a folder.
- `reads`, `asked`: syscr and rchar of /proc/thread-self/io. Calls of read, pread and the like, and
  the bytes that they returned, from the disk or from the cache; not the pages of a memory map.
- `fetched`: read_bytes of /proc/thread-self/io. Bytes that came from the disk, also for a map, and
  also those that the kernel read ahead; not what was in the cache, and nothing on a tmpfs.
- `faults`: getrusage, minor and major. First touches of pages: of a map (a fault brings in the 16
  pages around it where they are in the cache), but also of new memory.

All are of the calling thread, and not of its process's other threads or children (proc(5),
getrusage(2)). Reading that a library does in threads of its own is not seen.
"""

import os
import resource
import secrets
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hpml.data.formats import FORMATS, Format
from hpml.machine.page_cache import drop
from hpml.measure.opens import Opens

SHARED = Path("/dev/shm")  # a tmpfs
EVERY = 1000  # items between two looks at inotify's queue: far fewer than fit into it


@dataclass(frozen=True)
class Cost:
    """What `items` items took. `seconds` and counts are those of the work alone."""

    items: int
    seconds: float
    opens: int
    reads: int
    asked: int
    fetched: int
    faults: int

    @property
    def rate(self) -> float:
        """Items per second."""
        return self.items / self.seconds


def cost(folder: Path, items: Iterable[Any]) -> Cost:
    """Take all `items`, which are read from files in `folder`, and count what that takes.

    Iterating does the work: pass a generator or a reader. Raises OSError where /proc or inotify
    cannot be had.
    """
    with Opens(folder) as opens:
        own_reads, own_bytes = opens.reads, opens.bytes
        number, looking = 0, 0.0
        faults, before = _faults(), _Io.now()
        began = time.perf_counter()
        for _ in items:
            number += 1
            if number % EVERY == 0:
                looked = time.perf_counter()
                opens.drain()
                looking += time.perf_counter() - looked
        seconds = time.perf_counter() - began - looking
        after, faults = _Io.now(), _faults() - faults
        # Counted by the kernel as ours, and not the work's: looks at the queue, and the first look
        # at the counters themselves.
        reads = after.syscr - before.syscr - (opens.reads - own_reads) - 1
        asked = after.rchar - before.rchar - (opens.bytes - own_bytes) - before.length
        return Cost(
            number, seconds, opens.drain(), reads, asked, after.fetched - before.fetched, faults
        )


def shuffled(reader: Any, order: Sequence[int]) -> Iterable[Any]:
    """The samples of `reader` at the indices `order`, one by one."""
    return (reader[index] for index in order)


@dataclass(frozen=True)
class Pass:
    """All images of a folder read once: in which format, from where, in which order."""

    format: str
    place: str
    order: str
    cost: Cost


IN_ORDER, SHUFFLED = "in order", "shuffled"


def passes(
    images: np.ndarray,
    labels: np.ndarray,
    places: Mapping[str, Path],
    formats: Mapping[str, Format] = FORMATS,
    seed: int = 0,
    keep: Collection[str] = (),
) -> list[Pass]:
    """Write the images in each format to each place and read them, in order and shuffled.

    `places` has folders by name, which are made, and removed at the end but for those to `keep`.
    What is on a disk is read with a cold cache and then with a warm one ("disk, cold", "disk,
    warm"): contents are dropped before each cold pass, and mincore proves it; names and inodes stay
    in the kernel's memory.
    A tmpfs has only the one state, and keeps its name. Opening the reader, and an index that it
    makes, belong to the pass.
    """
    order = np.random.default_rng(seed).permutation(len(images)).tolist()
    done = []
    for place, folder in places.items():
        folder.mkdir(parents=True)
        try:
            for name, kept in formats.items():
                kept.write(folder / name, images, labels)
                next(_read(kept, folder / name, order))  # imports are not reading
                drop(folder / name)
                for way, indices in ((IN_ORDER, None), (SHUFFLED, order)):
                    on_disk = drop(folder / name, written=False) == 0.0
                    for state in (", cold", ", warm") if on_disk else ("",):
                        taken = cost(folder / name, _read(kept, folder / name, indices))
                        done.append(Pass(name, place + state, way, taken))
        finally:
            if place not in keep:
                shutil.rmtree(folder)
    return done


def places(folder: Path) -> dict[str, Path]:
    """Where to compare: in `folder`, on a disk, and in /dev/shm where that can be written to."""
    found = {"disk": folder / "disk"}
    if SHARED.is_dir() and os.access(SHARED, os.W_OK):
        found[str(SHARED)] = SHARED / f"hpml-{os.getpid()}-{secrets.token_hex(4)}"
    return found


def _read(kept: Format, folder: Path, order: Sequence[int] | None) -> Iterator[Any]:
    reader = kept.open(folder)
    try:
        yield from (reader if order is None else shuffled(reader, order))
    finally:
        reader.close()


@dataclass(frozen=True)
class _Io:
    """/proc/thread-self/io, and how many bytes long it was."""

    syscr: int
    rchar: int
    fetched: int
    length: int

    @staticmethod
    def now() -> "_Io":
        file = os.open("/proc/thread-self/io", os.O_RDONLY)
        try:
            content = os.read(file, 4096)
        finally:
            os.close(file)
        values = {
            name: int(value)
            for name, _, value in (line.partition(":") for line in content.decode().splitlines())
        }
        return _Io(values["syscr"], values["rchar"], values["read_bytes"], len(content))


def _faults() -> int:
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_minflt + used.ru_majflt
