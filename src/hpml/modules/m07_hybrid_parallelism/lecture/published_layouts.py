"""Layouts that others trained with, beside those that `hpml.predict.which_split` finds.

`published_layouts.csv` has a row for each: the model, the GPUs, the split, and what else the run
did (recomputation, sequence parallelism; the stages of ZeRO that its software had). `layers` are as
the stages divide them: `note` says where that is not the model's own number.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

from hpml.predict.which_split import RESERVE, Cluster, Layout, Transformer, fitting, layouts

PER_NODE, MEMORY = 8, 80e9  # of all of them
# FLOP/s that a GPU reaches, about half of its peak, and byte/s of its NVLink
GPUS = {"A100": (156e12, 300e9), "H100": (500e12, 450e9)}


@dataclass(frozen=True)
class Published:
    """A run: `data`, `pipeline` and `tensor` ranks, as its source has them."""

    name: str
    year: int
    source: str
    model: Transformer
    cluster: Cluster
    stages: tuple[int, ...]
    data: int
    pipeline: int
    tensor: int
    note: str


class Beside(NamedTuple):
    """A published layout with its best number of micro-batches, by the formulas, and the quickest
    layout that fits; None where none does."""

    run: Published
    theirs: Layout
    ours: Layout | None

    @property
    def same(self) -> bool:
        """Whether both split alike."""
        split = (self.theirs.data, self.theirs.pipeline, self.theirs.tensor)
        return self.ours is not None and split == (
            self.ours.data,
            self.ours.pipeline,
            self.ours.tensor,
        )

    @property
    def fits(self) -> bool:
        """Whether theirs fits, by the formulas."""
        return self.theirs.nbytes <= (1 - RESERVE) * self.run.cluster.memory

    @property
    def slower(self) -> float:
        """By what part theirs is slower than ours, by the formulas; ValueError without ours."""
        if self.ours is None:
            raise ValueError(f"{self.run.name}: nothing fits")
        return self.theirs.seconds / self.ours.seconds - 1


def published() -> Iterator[Published]:
    """All rows of the table."""
    text = (files(__package__) / "published_layouts.csv").read_text("utf-8")
    for row in csv.DictReader(text.splitlines()):
        flops, inside = GPUS[row["gpu"]]
        ranks, tensor, pipeline = (int(row[key]) for key in ("ranks", "tensor", "pipeline"))
        yield Published(
            row["name"],
            int(row["year"]),
            row["source"],
            Transformer(
                int(row["layers"]),
                int(row["width"]),
                int(row["sequences"]) * int(row["sequence"]),
                int(row["sequence"]),
                recompute=row["recompute"] == "yes",
                sequence_parallel=row["sequence_parallel"] == "yes",
            ),
            Cluster(ranks, PER_NODE, MEMORY, flops, inside, float(row["gbit_per_gpu"]) * 1e9 / 8),
            tuple(map(int, row["stages"].split())),
            ranks // tensor // pipeline,
            pipeline,
            tensor,
            row["note"],
        )


def beside(run: Published) -> Beside:
    """What the formulas find for a run's model on its GPUs."""
    found = [one for one in layouts(run.model, run.cluster) if one.stage in run.stages]
    split = (run.data, run.pipeline, run.tensor)
    theirs = [one for one in found if (one.data, one.pipeline, one.tensor) == split]
    quickest = lambda some: min(some, key=lambda one: one.seconds, default=None)  # noqa: E731
    return Beside(run, quickest(theirs), quickest(fitting(found, run.cluster.memory)))


def table(rows: list[Beside]) -> str:
    """A line for each: both splits, and how much slower the published one is by the formulas."""
    lines = [f"{'':28}{'GPUs':>5}  {'published':36}{'by formula':40}slower"]
    for one in rows:
        ours = "nothing fits" if one.ours is None else "the same" if one.same else str(one.ours)
        slower = "" if one.ours is None else f"{one.slower:6.1%}"
        name = f"{one.run.name}, {one.run.year}"
        lines.append(f"{name:28}{one.run.cluster.ranks:5}  {one.theirs!s:36}{ours:40}{slower}")
    return "\n".join(lines)
