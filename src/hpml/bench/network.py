"""The bandwidth of emulated links, and the cost of a launch with a network."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from hpml.bench.table import Row, Table, machine_conditions
from hpml.errors import UserError
from hpml.measure.comm import all_reduce_seconds, bus_bandwidth
from hpml.network.link import format_rate, parse_rate
from hpml.ranks import Evidence, launch

RATES = ("100mbit", "1gbit", "10gbit")
WORLDS = (2, 3, 4)
REPEATS = 5  # all-reduces in a launch, of which the median counts
MOST = 32_000_000  # bytes of a message, on fast links
ALONE, LINKED = "launch, 4 ranks", "launch, with links"


def message(rate: int) -> int:
    """Bytes worth measuring on a link of `rate` bit/s: 10 MB at 1 Gbit/s, in proportion."""
    return min(rate // 100, MOST)


def bench(
    rounds: int = 5,
    rates: Sequence[str] = RATES,
    worlds: Sequence[int] = WORLDS,
    report: Callable[[str], None] = print,
) -> Table:
    """Measure in `rounds` rounds; `report` gets a line for each.

    Raises UserError where this machine cannot emulate a network.
    """
    conditions = machine_conditions()
    sizes = [
        f"{message(parse_rate(rate)) / 1e6:g} MB at {format_rate(parse_rate(rate))}"
        for rate in rates
    ]
    conditions["by ranks"] = f"bus bandwidth of gloo's all_reduce of {', '.join(sizes)}"
    conditions["bus bandwidth"] = "2 (p-1)/p · bytes over seconds, as nccl-tests defines it"
    conditions["rounds"] = f"{rounds}, after one that is not counted; median of {REPEATS} in each"
    reached: dict[tuple[str, int], list[float]] = {}
    launches: dict[str, list[float]] = {ALONE: [], LINKED: []}
    for number in range(rounds + 1):
        for name, link in ((ALONE, None), (LINKED, "1gbit")):
            seconds = _launch_seconds(link)
            if number:
                launches[name].append(seconds)
        for rate in rates:
            for world_size in worlds:
                bandwidth = _bus_bandwidth(rate, world_size)
                if number:
                    reached.setdefault((rate, world_size), []).append(bandwidth / 1e9)
        report(f"round {number} of {rounds}" if number else "warmed up")
    rows = []
    for rate in rates:
        link = format_rate(parse_rate(rate))
        rows.append(Row(link, [parse_rate(rate) / 1e9] * rounds, "Gbit/s"))
        for world_size in worlds:
            name = f"{link}, {world_size} ranks"
            target = "at least 0.90" if (rate, world_size) == ("1gbit", 4) else ""
            rows.append(Row(name, reached[rate, world_size], "Gbit/s", base=link, target=target))
    cost = [linked - alone for alone, linked in zip(*launches.values(), strict=True)]
    rows += [
        Row(ALONE, launches[ALONE], "s"),
        Row(LINKED, launches[LINKED], "s", base=ALONE),
        Row("cost of the network", cost, "s", target="under 0.25 s"),
    ]
    return Table("Emulated links", rows, conditions)


def _bus_bandwidth(rate: str, world_size: int) -> float:
    nbytes = message(parse_rate(rate))
    inputs = [{"nbytes": nbytes, "repeats": REPEATS}] * world_size
    evidence = launch(_all_reduces, world_size, inputs=inputs, link=rate, timeout=120.0)
    check_launch(evidence, "bench network")
    by_repeat = zip(*evidence.values, strict=True)
    return statistics.median(bus_bandwidth(nbytes, world_size, each) for each in by_repeat)


def _all_reduces(inputs: dict[str, Any]) -> list[float]:
    return all_reduce_seconds(**inputs)


def _launch_seconds(link: str | None) -> float:
    started = time.perf_counter()
    evidence = launch(_one_all_reduce, 4, link=link)
    seconds = time.perf_counter() - started
    check_launch(evidence, "bench network")
    return seconds


def _one_all_reduce() -> None:
    dist.all_reduce(torch.ones(4))


def check_launch(evidence: Evidence, bench: str) -> None:
    """Raise UserError where a launch had no network or did not return, naming the `bench`."""
    if evidence.no_link:
        raise UserError(
            f"{bench}: no network can be emulated here: {evidence.no_link}; see ./hpml doctor"
        )
    if evidence.diagnosis is not None:
        raise UserError(f"{bench}: {evidence.diagnosis.sentence}")
