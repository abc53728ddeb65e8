"""What an hour of a part costs, and what a dollar buys of its data sheet.

One provider's public list on one day, so that the parts can be compared: prices of other providers,
and of other months, differ by more than the parts do.
"""

import csv
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple

from hpml.predict.hardware import Part, part

READ_ON = "2026-09-20"
SOURCE = (
    "Akash, akash.network/pricing/gpus, lowest price of each part (SXM; the T4 on PCIe), as "
    "github.com/api-evangelist/akash, plans/plans.yml, has it"
)


class Price(NamedTuple):
    """US dollars for an hour of one part, and what a dollar an hour rents."""

    part: Part
    usd_per_hour: float

    @property
    def tflops(self) -> float:
        """TFLOP/s, floats of 16 bits."""
        return self.part.peak() / 1e12 / self.usd_per_hour

    @property
    def bandwidth(self) -> float:
        """GB/s of memory."""
        return self.part.bandwidth_gb_s / self.usd_per_hour

    @property
    def memory(self) -> float:
        """GB."""
        return self.part.memory_gb / self.usd_per_hour


def prices() -> list[Price]:
    """Of the list, in the order of the parts' years."""
    text = files(__package__).joinpath("prices.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return [Price(part(row["part"]), float(row["usd_per_hour"])) for row in rows]


def table(shown: Sequence[Price]) -> str:
    """A row for each part; then where the prices are from, and their date."""
    lines = [f"{'':6}{'USD an hour':>12}{'TFLOP/s':>12}{'GB/s':>10}{'GB':>8}  for a dollar an hour"]
    lines += [
        f"{one.part.name:6}{one.usd_per_hour:12.2f}{one.tflops:12,.0f}{one.bandwidth:10,.0f}"
        f"{one.memory:8.0f}"
        for one in shown
    ]
    return "\n".join([*lines, f"{SOURCE}, {READ_ON}"])


class Cheapest(NamedTuple):
    """The part of which a dollar buys the most, by what binds. `held`: not one part for all."""

    held: bool
    compute: Price
    bandwidth: Price
    memory: Price


def cheapest(shown: Sequence[Price]) -> Cheapest:
    """By FLOP/s, by bandwidth and by size of memory."""
    best = [
        max(shown, key=lambda one: getattr(one, of)) for of in ("tflops", "bandwidth", "memory")
    ]
    return Cheapest(len({one.part.name for one in best}) > 1, *best)
