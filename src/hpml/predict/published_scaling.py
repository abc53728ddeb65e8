"""Published scaling measurements as data: how fast training was on how many processors.

`published_scaling.csv` has one row for each measurement, together with what was measured: cluster,
network, model, batch, method. Rows of one `table` differ only in `ranks`, `value` and `where`.

- `source` is the publication, `where` its page, table, figure and link, `how` whether the value is
  printed there (a table or a sentence) or was read from a plot, and then how exactly.
- `batch` is the batch of one rank. Where all ranks share a batch (`scaling` is not weak) it is that
  of the first row.
- `network_gbit` is the nominal rate of the network of one node, in 10^9 bits per second and one
  direction. What a source does not give is empty: nothing is estimated.
- `value` is in `unit`, one of `UNITS`.
- `model` is one of `hpml.predict.model_layers.MODELS` where its layers are known there.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from hpml.errors import UserError

UNITS = {
    "images/s": "images per second of all ranks together",
    "sequences/s": "sequences of tokens per second of all ranks together",
    "s/step": "seconds for one step",
    "s/epoch": "seconds for one pass over the data",
    "efficiency": "throughput, over that of one rank (or the first row) times as many ranks",
    "normalised": "throughput, over that of a base named in `method`",
}
ALGORITHMS = {
    "all-reduce": "an all-reduce, which one is not given",
    "ring": "a ring all-reduce",
    "halving-doubling": "an all-reduce by recursive halving and doubling",
    "hierarchical": "an all-reduce within nodes, then between them",
    "tree": "a reduction and a broadcast along trees",
    "parameter-server": "parameter servers",
    "sharded": "all-gathers of parameters and a reduce-scatter of gradients",
    "pipeline": "no all-reduce: layers are split",
    "tensor": "tensors of a layer are split",
}
SCALING = {
    "weak": "each rank has the same batch",
    "strong": "all ranks share a batch",
    "accumulated": "all ranks share a batch, in micro-batches of one size",
}


@dataclass(frozen=True)
class Row:
    """One measurement. Texts are empty and numbers None where the source does not give them."""

    table: str
    source: str  # author, year, title
    where: str  # page, table or figure, link
    how: str
    year: int
    cluster: str
    processor: str
    per_node: int  # ranks of one node
    network: str
    network_gbit: float | None  # of one node
    model: str
    batch: int | None  # of one rank
    number: str
    data: str  # synthetic or real
    method: str
    algorithm: str  # of ALGORITHMS
    scaling: str  # of SCALING
    ranks: int
    value: float
    unit: str  # of UNITS

    @property
    def nodes(self) -> int:
        return -(-self.ranks // self.per_node)


@cache
def tables() -> dict[str, tuple[Row, ...]]:
    """All tables by their id, in the order of the file; rows by rank, the fewest first."""
    text = files("hpml.predict").joinpath("published_scaling.csv").read_text(encoding="utf-8")
    found: dict[str, tuple[Row, ...]] = {}
    for one in csv.DictReader(text.splitlines()):
        row = _row(one)
        found[row.table] = (*found.get(row.table, ()), row)
    return found


def table(name: str) -> tuple[Row, ...]:
    """The rows of this table. Raises UserError, with all ids, where there is none."""
    if name not in tables():
        raise UserError(f"no published table {name!r}: there are {', '.join(tables())}")
    return tables()[name]


def split(rows: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """The rows that a model may be fitted on, and those that it has to predict.

    The rule is the same for all tables, and was written before any model was tried on them. The
    smallest sizes fit, as few as two constants need: a row of one rank, if there is one, and then
    sizes of several ranks until there are two, and until one of them uses the network between
    nodes, if the table gets there at all. The largest size is never fitted. So a table of two rows
    has one to fit; a table of one row has nothing to predict.
    """
    ordered = sorted(rows, key=lambda row: row.ranks)
    if len(ordered) < 2:
        return tuple(ordered), ()
    many = [row for row in ordered if row.ranks > 1]
    across = [row for row in many if row.nodes > 1]
    last = max(many[1:2] + across[:1], key=lambda row: row.ranks, default=ordered[0])
    fitted = [row for row in ordered[:-1] if row.ranks <= last.ranks]
    return tuple(fitted), tuple(ordered[len(fitted) :])


def _row(row: Mapping[str, str]) -> Row:
    numbers: dict[str, Any] = {
        "year": int(row["year"]),
        "per_node": int(row["per_node"]),
        "network_gbit": float(row["network_gbit"]) if row["network_gbit"] else None,
        "batch": int(row["batch"]) if row["batch"] else None,
        "ranks": int(row["ranks"]),
        "value": float(row["value"]),
    }
    return Row(**{**row, **numbers})
