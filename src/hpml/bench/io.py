"""Storage: the same images in six formats beside a plain read of their bytes; and loaders.

A plain read is the bytes of all records, from one file, a megabyte at a time. Loaders also
augment and normalise. Every round measures everything once.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpml import answer as learners
from hpml.answer.module import as_module
from hpml.bench.table import Row, Table, machine_conditions
from hpml.data import load
from hpml.data.formats import FORMATS, memory_map
from hpml.data.formats.record import sample
from hpml.data.mapped import RECORD
from hpml.errors import UserError
from hpml.frameworks import tf_data_loading
from hpml.machine.freed_memory import keep_freed_memory
from hpml.machine.page_cache import drop
from hpml.measure import storage
from hpml.measure.loaders import Vectorised, data_loader, one_thread
from hpml.measure.loading import best_by_turns, images_per_second
from hpml.paths import CHECKOUT

IMAGES = 10_000
BATCH = 500
WORKERS = (0, 1, 2, 3, 4)
SOLUTIONS = CHECKOUT / "solutions" / "02_hardware.py"
TURNS = 8  # of gathering and copying: short, so that other work hits one of them
PIECE = 2**20  # bytes of a plain read
PLAIN = "plain read"
COPY, CACHED = "memory copied", "memory copied, batch by batch into one cached batch"
STREAMED, PACKED = "WebDataset, in order", "reference solution's packed file, in order"
BEST, COURSE = "DataLoader, best number of workers", "course's loader"
GATHERED = "course's loader, without augmentation"


def bench(
    data: str | None = None,
    rounds: int = 3,
    images: int = IMAGES,
    workers: Sequence[int] = WORKERS,
    formats: Sequence[str] = tuple(FORMATS),
    report: Callable[[str], None] = print,
) -> Table:
    """Measure in `rounds` rounds on `images` images from all over the training set.

    `report` gets a line for each round. Raises UserError where no folder can be written to.
    """
    keep_freed_memory()  # as the training script does
    conditions = machine_conditions()
    found = load(data)
    conditions["data"] = found.describe()
    split = found.train
    index = np.arange(0, len(split), max(1, len(split) // images))[:images]
    chosen = split.images[index], split.labels[index]
    order = np.random.default_rng(0).permutation(len(index))
    # Gathered and copied: all images, which no cache holds, in an order that visits every file.
    everything = np.random.default_rng(1).permutation(len(split))
    reached: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="hpml-io-") as disk:
        files = Path(disk) / "loaders"
        answer = _pack_files()
        for name in ("files", "tar", "TFRecord"):
            FORMATS[name].write(files / name, *chosen)
        loaders: dict[str, Iterable[Any]] = {
            f"DataLoader, {_count(number, 'worker')}": data_loader(
                files / "files", order.tolist(), BATCH, number
            )
            for number in workers
        }
        loaders[COURSE] = Vectorised(split, index[order], BATCH)
        for number in range(rounds):
            measured = _storage(chosen, Path(disk), {name: FORMATS[name] for name in formats})
            if answer is None:
                conditions["packed file"] = f"not measured: {SOLUTIONS.name} is not there"
            else:
                measured |= _packing(answer, files)
            with one_thread():
                measured |= _loading(loaders, Vectorised(split, everything, BATCH, False))
            try:
                measured["tf.data"] = tf_data_loading.rate(files / "TFRecord", len(index), BATCH)
            except UserError as error:
                conditions["tf.data"] = f"not measured: {error}"
            for name, value in measured.items():
                reached.setdefault(name, []).append(value)
            report(f"round {number + 1} of {rounds}")
    conditions["images"] = (
        f"{len(index)} of {RECORD:,} bytes each, one pass of each kind in a round, one thread; "
        f"batches of {BATCH}, of loaders the quicker of two passes"
    )
    conditions["cold"] = "contents dropped with posix_fadvise, proven by mincore; names stay cached"
    conditions["GB/s"] = (
        f"of all {len(split)} images, the quickest of {TURNS} turns; "
        "memory is copied as STREAM does, between arrays that no cache holds"
    )
    return Table("bench io", rows(reached), conditions)


def rows(reached: Mapping[str, Sequence[float]]) -> list[Row]:
    """Rows with base and target, from each thing's values by round.

    Storage is compared with the plain read from the same place; the DataLoader's best number of
    workers is that of each round.
    """
    out = []
    loaders = [name for name in reached if name.startswith("DataLoader")]
    for name, values in reached.items():
        place, _, what = name.partition(": ")
        base = f"{place}: {PLAIN}" if what and what != PLAIN else None
        if name == COURSE:
            best = [max(one) for one in zip(*(reached[n] for n in loaders), strict=True)]
            out.append(Row(BEST, best, "images/s"))
            out.append(Row(name, values, "images/s", base=BEST, target="at least 5"))
        elif name == PACKED:
            out.append(Row(name, values, "images/s", base=STREAMED, target="at least 1"))
        elif name in (COPY, CACHED):
            out.append(Row(name, values, "GB/s"))
        elif name == GATHERED:
            out.append(Row(name, values, "GB/s", base=COPY, target="at least 0.5"))
        else:
            out.append(Row(name, values, "images/s", base=base))
    return out


def plain_read(path: Path) -> float:
    """Records per second, of 3,073 bytes each, when the file is read from its start to its end."""
    piece = bytearray(PIECE)
    began = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(piece):
            pass
    return path.stat().st_size / RECORD / (time.perf_counter() - began)


def _storage(
    chosen: tuple[np.ndarray, np.ndarray], disk: Path, formats: Mapping[str, storage.Format]
) -> dict[str, float]:
    """Images per second by "place: what": plain reads, then each format in order and shuffled."""
    places = storage.places(disk)
    out = {}
    for place, folder in places.items():
        memory_map.write(folder, *chosen)
        on_disk = drop(folder) == 0.0
        for state in (", cold", ", warm") if on_disk else ("",):
            out[f"{place}{state}: {PLAIN}"] = plain_read(folder / memory_map.NAME)
        shutil.rmtree(folder)
    for done in storage.passes(*chosen, places, formats):
        out[f"{done.place}: {done.format}, {done.order}"] = done.cost.rate
    return out


def _pack_files() -> Any:
    """The module of the reference answer to exercise pack_files; None where there is none."""
    if not SOLUTIONS.is_file():
        return None
    answers = {one.exercise: one for one in learners.read(SOLUTIONS)}
    one = answers.get("pack_files")
    return None if one is None else as_module(learners.as_python(one.source), PACKED)


def _packing(answer: Any, files: Path) -> dict[str, float]:
    """Images per second, in order and warm: WebDataset's tar, and the answer's pack of files."""
    target = files / "pack"
    if not target.exists():
        answer.pack(str(files / "files"), str(target))
    packed = answer.Packed(str(target))
    contents = (sample(packed[index][1]) for index in range(len(packed)))
    return {
        STREAMED: storage.cost(files / "tar", FORMATS["tar"].open(files / "tar")).rate,
        PACKED: storage.cost(files / "tar", contents).rate,
    }


def _loading(loaders: Mapping[str, Iterable[Any]], gathering: Vectorised) -> dict[str, float]:
    """Images per second of each loader; GB/s of the course's gather, and of a copy."""
    out = {name: images_per_second(batches) for name, batches in loaders.items()}
    size = RECORD - 1
    pixels = np.asarray(gathering.split.images).reshape(-1, size)
    rates = best_by_turns(
        {COPY: Copied(pixels, len(pixels)), CACHED: Copied(pixels, BATCH), GATHERED: gathering},
        turns=TURNS,
    )
    out |= {name: size * rate / 1e9 for name, rate in rates.items()}
    return out


class Copied:
    """Batches copied, one after the other, into the same place: what memory lets through.

    With one batch of all images, the copy goes from memory to memory, as STREAM's does (McCalpin,
    1995); small batches stay in the cache.
    """

    def __init__(self, images: np.ndarray, batch_size: int):
        self.images, self.batch_size = images, batch_size
        self.into = np.empty_like(images[:batch_size])

    def __iter__(self):
        for start in range(0, len(self.images), self.batch_size):
            batch = self.images[start : start + self.batch_size]
            np.copyto(self.into[: len(batch)], batch)
            yield self.into, range(len(batch))


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
