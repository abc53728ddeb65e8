"""The course's hardware table: processors of ten years, what they compute, move and hold.

`hardware.csv` has one row for each part. Its figures are peak rates as vendors publish them.

- Rates are in TFLOP/s (for int8 in TOP/s), with multiply and add counted as two, on the part's
  fastest unit for that type: tensor cores, matrix cores or vector units. They are dense rates.
  NVIDIA and AMD also publish rates "with sparsity", twice as high, for matrices in which two of
  every four numbers are zero: the table has none of those.
- A link's rate is the sum of all such links of one part, in one direction. Vendors often give both
  directions together, which is twice as much.
- GB are 10^9 bytes.
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

TYPES = ("int8", "fp16", "bf16", "tf32", "fp32", "fp64")
SIXTEEN_BITS = ("fp16", "bf16")  # floats that networks are trained with


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


def growth(older: str, newer: str) -> tuple[bool, str, str]:
    """For `conclude`: from one part to the other, rates for 16 bits grew more than its memory's
    bandwidth, and more than its links'."""
    first, last = part(older), part(newer)
    compute = last.peak() / first.peak()
    memory = last.bandwidth_gb_s / first.bandwidth_gb_s
    links = (last.link_gb_s or 0) / (first.link_gb_s or 1)
    sentence = (
        f"**Answer.** From the {older} ({first.year}) to the {newer} ({last.year}) FLOP/s for 16 "
        f"bits grew {compute:.0f} times, the memory's bandwidth {memory:.0f} times, and the links' "
        f"{links:.0f} times. In the time of one byte from memory, the {newer} can do "
        f"{last.ridge():.0f} FLOP, the {older} {first.ridge():.0f}."
    )
    seen = f"FLOP/s grew {compute:.1f} times, memory {memory:.1f} times, links {links:.1f} times."
    return compute > max(memory, links), sentence, seen


def steps(*names: str) -> tuple[bool, str, str]:
    """For `conclude`: from part to part, how much FLOP per byte grew; the most in the first step,
    and hardly in the last. Of memory and of links."""
    shown = [part(name) for name in names]
    ridges = [one.ridge() for one in shown]
    links = [one.flops_per_link_byte() or 1.0 for one in shown]
    grew = [[later / earlier for earlier, later in pairwise(ratios)] for ratios in (ridges, links)]
    seen = ", ".join(
        f"from the {one.name} to the {other.name} {memory:.1f} and {link:.1f} times"
        for (one, other), memory, link in zip(pairwise(shown), *grew, strict=True)
    )
    held = all(each[0] == max(each) and each[-1] < 1.25 for each in grew)
    return (
        held,
        f"FLOP for each byte of memory, and of the links: {seen}. The first step is the largest, "
        f"and since the {shown[-2].name} ({shown[-2].year}) both have nearly kept up.",
        f"FLOP for each byte of memory, and of the links: {seen}.",
    )


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
