"""The course's hardware table: processors of ten years, what they compute, move and hold.

`hardware.csv` has one row for each part. Its figures are peak rates as vendors publish them.

- Rates are in TFLOP/s (for int8 in TOP/s), with multiply and add counted as two, on the part's
  fastest unit for that type: tensor cores, matrix cores or vector units. They are dense rates.
  NVIDIA and AMD also publish rates "with sparsity", twice as high, for matrices in which two of
  every four numbers are zero: the table has none of those.
- A link's rate is the sum of all such links of one part, in one direction. Vendors often give both
  directions together, which is twice as much.
- GB are 10^9 bytes. Of memory they are as the source names them; GiB, as Google has them, are
  converted.
- Sources are per row, not per figure: `source` is the publication that the row is from, and names
  a second one for the figure that is from there; `read_at` is where the row's figures were looked
  up. What was not found is None, never estimated.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple

TYPES = ("fp4", "fp8", "int8", "fp16", "bf16", "tf32", "fp32", "fp64")
SIXTEEN_BITS = ("fp16", "bf16")  # floats that networks are trained with
FLOATS = ("fp4", "fp8", *SIXTEEN_BITS)  # of 16 bits and fewer
BYTES = {"fp4": 0.5, "fp8": 1.0, "fp16": 2.0, "bf16": 2.0}  # of a number


@dataclass(frozen=True)
class Part:
    """One processor. `tflops` has its rates by type, only those that were found."""

    name: str
    vendor: str
    year: int  # in which it reached its first customers
    kind: str  # CPU, GPU, TPU or IPU
    tflops: Mapping[str, float]
    memory_gb: float | None
    bandwidth_gb_s: float  # of that memory
    link: str
    link_gb_s: float | None
    watts: float | None
    source: str
    read_at: str

    def peak(self, types: Sequence[str] = SIXTEEN_BITS) -> float:
        """FLOP/s, the highest of these types.

        Raises ValueError where the table has none of them for this part.
        """
        known = [self.tflops[name] for name in types if name in self.tflops]
        if not known:
            raise ValueError(f"{self.name}: no rate for {', '.join(types)} in the hardware table")
        return max(known) * 1e12

    def ridge(self, types: Sequence[str] = SIXTEEN_BITS) -> float:
        """FLOP per byte of memory at which both roofs meet (Williams et al. 2009, section 3).

        What asks for less is bound by the memory's bandwidth. Raises as `peak` does.
        """
        return self.peak(types) / (self.bandwidth_gb_s * 1e9)

    def flops_per_link_byte(self, types: Sequence[str] = SIXTEEN_BITS) -> float | None:
        """FLOP in the time in which one byte leaves over the links; None where that is unknown."""
        return None if self.link_gb_s is None else self.peak(types) / (self.link_gb_s * 1e9)


@cache
def parts() -> tuple[Part, ...]:
    """All parts of the table, by year."""
    text = files("hpml.predict").joinpath("hardware.csv").read_text(encoding="utf-8")
    return tuple(_part(row) for row in csv.DictReader(text.splitlines()))


def part(name: str) -> Part:
    """The part of this name. Raises ValueError, with all names, where there is none."""
    for one in parts():
        if one.name == name:
            return one
    known = ", ".join(one.name for one in parts())
    raise ValueError(f"{name!r} is not in the hardware table: {known}")


def with_rates(types: Sequence[str] = SIXTEEN_BITS) -> tuple[Part, ...]:
    """The parts that have a rate for one of these types."""
    return tuple(one for one in parts() if any(name in one.tflops for name in types))


def table(shown: Sequence[Part] | None = None) -> str:
    """The parts as text, a line each: rates in TFLOP/s, GB, GB/s, and FLOP per byte of memory for
    floats of 16 bits. "–" is what the sources do not give."""
    heads = ("part", "year", *TYPES, "GB", "GB/s", "link GB/s", "W", "FLOP/B")
    rows = [heads, *(_cells(one) for one in (parts() if shown is None else shown))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def narrowest(one: Part) -> str:
    """The part's narrowest float of at most 16 bits: "fp8". Raises StopIteration without any."""
    return next(name for name in FLOATS if name in one.tflops)


def flops_per_number(one: Part) -> float:
    """FLOP in the time in which one number of the narrowest float comes from memory."""
    return one.ridge(FLOATS) * BYTES[narrowest(one)]


class Growth(NamedTuple):
    """How many times FLOP/s for 16 bits grew from one part to another, its memory's bandwidth, and
    its links'. `held`: FLOP/s the most."""

    held: bool
    compute: float
    memory: float
    links: float


def growth(older: Part, newer: Part) -> Growth:
    """From one part to the other."""
    compute = newer.peak() / older.peak()
    memory = newer.bandwidth_gb_s / older.bandwidth_gb_s
    links = (newer.link_gb_s or 0) / (older.link_gb_s or 1)
    return Growth(compute > max(memory, links), compute, memory, links)


class Steps(NamedTuple):
    """From part to part, how many times FLOP per byte grew: of memory, and of the links. `held`:
    both the most in the first step, and hardly in the last; `grows`: clearly in the last, too."""

    held: bool
    memory: list[float]
    links: list[float]
    grows: bool


def steps(shown: Sequence[Part], types: Sequence[str] = SIXTEEN_BITS) -> Steps:
    """From each part to the next, at the highest rate of these types."""
    ridges = [one.ridge(types) for one in shown]
    links = [one.flops_per_link_byte(types) or 1.0 for one in shown]
    memory, links = (
        [later / earlier for earlier, later in pairwise(ratios)] for ratios in (ridges, links)
    )
    held = all(each[0] == max(each) and each[-1] < 1.25 for each in (memory, links))
    return Steps(held, memory, links, memory[-1] > 1.5 and links[-1] > 1.5)


def sources() -> str:
    """Where each row is from, a line each."""
    return "\n".join(f"{one.name}: {one.source}. Looked up: {one.read_at}." for one in parts())


def _cells(one: Part) -> tuple[str, ...]:
    ridge = one.ridge() if any(name in one.tflops for name in SIXTEEN_BITS) else None
    rates = [one.tflops.get(name) for name in TYPES]
    numbers = [*rates, one.memory_gb, one.bandwidth_gb_s, one.link_gb_s, one.watts]
    return (one.name, str(one.year), *map(_shown, numbers), _shown(ridge and round(ridge)))


def _shown(number: float | None) -> str:
    if number is None:
        return "–"
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _part(row: Mapping[str, str]) -> Part:
    def number(column: str) -> float | None:
        return float(row[column]) if row[column] else None

    return Part(
        name=row["name"],
        vendor=row["vendor"],
        year=int(row["year"]),
        kind=row["kind"],
        tflops={name: float(row[name]) for name in TYPES if row[name]},
        memory_gb=number("memory_gb"),
        bandwidth_gb_s=float(row["bandwidth_gb_s"]),
        link=row["link"],
        link_gb_s=number("link_gb_s"),
        watts=number("watts"),
        source=row["source"],
        read_at=row["read_at"],
    )
