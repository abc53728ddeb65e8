"""A learner's own measurements for the predictor, as the course's job scripts leave them.

Three kinds of file, known by their columns or fields:

    a CSV with `ranks` and `images_per_s`   one row a run, as a scaling study writes it
    history.json (slurm/06_*)               one training run: world_size, images_per_second
    all_reduce.csv (slurm/01_*)             times of all-reduces: α and β of the network
"""

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.errors import UserError
from hpml.predict.collectives import Cost
from hpml.predict.scaling_fit import Point

# Names of columns as people write them: small letters, with _ for all that is no letter or digit
RANKS = ("ranks", "world_size", "gpus", "n_gpus", "num_gpus", "processes")
SPEED = (
    "images_per_s", "images_per_second", "images_per_sec", "images_s", "images_sec", "img_s",
    "img_sec", "imgs_s", "throughput",
)  # fmt: skip


@dataclass(frozen=True)
class Own:
    """What the files say: points with the fewest ranks first, images of one rank's step, and the
    cost of a message between nodes; None where no file has it."""

    points: tuple[Point, ...] = ()
    batch: int | None = None
    between: Cost | None = None


def read(paths: Sequence[Path]) -> Own:
    """All files together; of runs on the same number of ranks the fastest counts.

    Raises UserError, with the file and what is wrong with it.
    """
    best: dict[int, float] = {}
    batches: set[int] = set()
    between = None
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8-sig")  # spreadsheets begin with a mark
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "is not text"
            raise UserError(f"--fit {path}: {why}") from None
        rows = _history(path, text) if path.suffix == ".json" else _table(path, text)
        if "algorithm" in rows[0]:
            between = _cost(path, rows)
            continue
        for row in rows:
            ranks = int(_number(path, row, RANKS))
            best[ranks] = max(best.get(ranks, 0.0), _number(path, row, SPEED))
            if row.get("batch"):
                batches.add(int(_number(path, row, ("batch",))))
    if len(batches) > 1:
        raise UserError(
            f"--fit: batches of {', '.join(map(str, sorted(batches)))} on a rank: the model scales "
            "weakly, give runs with one batch on each rank"
        )
    batch = next(iter(batches), None)
    return Own(tuple(Point(ranks, best[ranks]) for ranks in sorted(best)), batch, between)


def _history(path: Path, text: str) -> list[dict[str, str | None]]:
    try:
        fields = json.loads(text)
    except ValueError:
        raise UserError(f"--fit {path}: is not JSON") from None
    if not isinstance(fields, dict) or not all(
        any(name in fields for name in names) for names in (RANKS, SPEED)
    ):
        raise UserError(f"--fit {path}: is not a history.json of ./hpml train")
    return [{name: str(value) for name, value in fields.items() if name in (*RANKS, *SPEED)}]


def _table(path: Path, text: str) -> list[dict[str, str | None]]:
    lines = [line for line in text.splitlines() if line.strip(" \t,;")]
    marks = [mark for mark in ";\t" if lines and mark in lines[0]]
    rows = [
        {_plain(name): _cell(value, marks) for name, value in row.items() if isinstance(name, str)}
        for row in csv.DictReader(lines, delimiter=marks[0] if marks else ",")
    ]
    names = set(rows[0]) if rows else set()
    study = names & set(RANKS) and names & set(SPEED)
    if not study and not {"algorithm", "ranks", "bytes", "seconds"} <= names:
        found = f" (found: {', '.join(sorted(names))})" if names else ""
        raise UserError(
            f"--fit {path}: give a CSV with the columns ranks and images_per_s{found}, or an "
            "all_reduce.csv of slurm/01_allreduce.slurm"
        )
    return rows


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def _cell(value: str | None, marks: Sequence[str]) -> str | None:
    """A number with a decimal comma as one with a point, where commas do not part columns."""
    value = value.strip() if isinstance(value, str) else None
    return value.replace(",", ".") if value and marks else value


def _number(path: Path, row: Mapping[str, str | None], names: Iterable[str]) -> float:
    """The first column of `names` that there is, which must be above 0."""
    name = next(name for name in names if name in row)
    try:
        value = float(row[name] or "")
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise UserError(f"--fit {path}: {name} is {row[name]!r}: expected a number above 0")
    return value


def _cost(path: Path, rows: Sequence[Mapping[str, str | None]]) -> Cost:
    """α and β from the two ends of the ring's times: 2 (p-1) α + 2 (p-1)/p · n β.

    With several ranks on each node they share its link, and a ring crosses it once: β is the
    link's all the same.
    """
    columns = (("ranks",), ("bytes",), ("seconds",))
    ring = [
        [_number(path, row, column) for column in columns]
        for row in rows
        if row["algorithm"] == "ring"
    ]
    if len({nbytes for _, nbytes, _ in ring}) < 2 or ring[0][0] < 2:
        raise UserError(f"--fit {path}: has no two sizes of the ring on several ranks")
    (ranks, small, quick), (_, large, slow) = sorted(ring)[0], sorted(ring)[-1]
    beta = (slow - quick) / (large - small) / (2 * (ranks - 1) / ranks)
    if not beta > 0:
        raise UserError(f"--fit {path}: {large:g} bytes took no longer than {small:g}")
    return Cost(quick / (2 * (ranks - 1)), beta)
