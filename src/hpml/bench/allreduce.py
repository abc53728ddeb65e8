"""All-reduce by every algorithm, from 4 bytes to 64 MB, beside Gloo's, MPI's and the bound."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from hpml.allreduce import ALGORITHMS, mpi
from hpml.allreduce.timing import LIBRARY, time_all_reduces
from hpml.bench.grid import Cell, Grid
from hpml.bench.network import check_launch
from hpml.bench.table import Row, machine_conditions
from hpml.measure.comm import bus_bandwidth, fit
from hpml.network.link import Link, format_rate, parse_link
from hpml.ranks import launch
from hpml.trace.space_time import format_bytes

# Bytes: repeats in a round, after one warm-up
SIZES = {
    4: 20,
    1_000: 20,
    16_000: 20,
    64_000: 10,
    256_000: 10,
    1_000_000: 5,
    4_000_000: 5,
    16_000_000: 3,
    64_000_000: 1,
}
WORLDS = (2, 3, 4)
# The sizes that the α–β model is fitted on. 4 bytes are one element, which cannot be cut into
# parts: most of an algorithm's messages would not be sent, and its latency would be missed.
FITTED = (1_000, 16_000_000)
JUDGED = ("1gbit", 4, 16_000_000)  # link, ranks and bytes with targets
GLOO, MPI = "Gloo", "MPI"
PER_NODE = 2  # ranks, for the hierarchical algorithm on a network without nodes

Taken = dict[int, dict[str, float]]  # median seconds of a round, by bytes and by algorithm


def bench(
    rounds: int = 3,
    links: Sequence[str] = ("1gbit",),
    sizes: Mapping[int, int] = SIZES,
    worlds: Sequence[int] = WORLDS,
    report: Callable[[str], None] = print,
) -> Grid:
    """Measure in `rounds` rounds; `report` gets a line for each launch.

    A link with nodes is measured with as many ranks as it has. MPI is left out where it is missing.

    Raises UserError where this machine cannot emulate a network.
    """
    without_mpi = mpi.missing()
    cases = [(text, world_size) for text in links for world_size in worlds_of(text, worlds)]
    conditions = _conditions(rounds, sizes, without_mpi)
    found: dict[tuple[str, int], list[Taken]] = {case: [] for case in cases}
    for number in range(1, rounds + 1):
        for text, world_size in cases:
            taken = _launched(text, world_size, sizes)
            if not without_mpi:
                for nbytes, seconds in _of_mpi(text, world_size, sizes).items():
                    taken[nbytes][MPI] = seconds
            found[text, world_size].append(taken)
            report(f"round {number} of {rounds}: {world_size} ranks, {text}")
    rows: list[Row] = []
    cells: dict[str, dict[str, Cell]] = {}
    for (text, world_size), taken in found.items():
        link = parse_link(text, world_size)
        bound, lines = reached(link, world_size, taken)
        rows += [bound, *(cell.row for line in lines.values() for cell in line.values())]
        rows += beside_targets(link, world_size, taken)
        cells |= lines
    title = "All-reduce over emulated links: time, and bus bandwidth over the bound"
    return Grid(title, rows, conditions, cells)


def reached(
    link: Link, world_size: int, taken: Sequence[Taken]
) -> tuple[Row, dict[str, dict[str, Cell]]]:
    """The bound, and the bus bandwidth of each algorithm: a line for each size."""
    where = _where(link, world_size)
    bound = Row(f"{where}: bound", [bound_rate(link, world_size) / 1e6] * len(taken), "Mbit/s")
    lines: dict[str, dict[str, Cell]] = {}
    for nbytes in taken[0]:
        line = lines[f"{where}\n{format_bytes(nbytes)}"] = {}
        for name in taken[0][nbytes]:
            seconds = [one[nbytes][name] for one in taken]
            rates = [bus_bandwidth(nbytes, world_size, [each]) / 1e6 for each in seconds]
            row = Row(f"{where}, {format_bytes(nbytes)}: {name}", rates, "Mbit/s", bound.name)
            line[name] = Cell(row, _format_seconds(statistics.median(seconds)))
    return bound, lines


def beside_targets(link: Link, world_size: int, taken: Sequence[Taken]) -> list[Row]:
    """Rows for the targets: the ring's bus bandwidth, the ring beside Gloo, the model's errors.

    Rows of what was not measured are left out; only `JUDGED` has targets.
    """
    where = _where(link, world_size)
    text, ranks, nbytes = JUDGED
    judged = (link.text, world_size) == (text, ranks)
    rows = []
    if nbytes in taken[0]:
        size = f"{where}, {format_bytes(nbytes)}"
        rate = bound_rate(link, world_size)
        shares = [bus_bandwidth(nbytes, world_size, [one[nbytes]["ring"]]) / rate for one in taken]
        rows.append(
            Row(f"{size}: ring, over the bound", shares, "×", target="at least 0.90" * judged)
        )
        gloo, ring = ([1e3 * one[nbytes][name] for one in taken] for name in (GLOO, "ring"))
        rows.append(Row(f"{size}: {GLOO}'s time", gloo, "ms"))
        rows.append(Row(f"{size}: ring's time", ring, "ms", rows[-1].name, "at most 1.05" * judged))
    if set(FITTED) < set(taken[0]):
        for name in taken[0][FITTED[0]]:
            errors = [100 * model_error(one, name) for one in taken]
            target = "under 15" * (judged and name in ALGORITHMS)
            rows.append(Row(f"{where}: error of the model, {name}", errors, "%", target=target))
    return rows


def model_error(taken: Taken, name: str) -> float:
    """The median relative error of α + β · bytes, fitted on two sizes, at the others."""
    line = fit(FITTED, [taken[nbytes][name] for nbytes in FITTED])
    others = {nbytes: by[name] for nbytes, by in taken.items() if nbytes not in FITTED}
    return statistics.median(abs(line.seconds(n) / seconds - 1) for n, seconds in others.items())


def bound_rate(link: Link, world_size: int) -> float:
    """The bus bandwidth, in bit/s, that no all-reduce can exceed on this network."""
    if link.uplink is None:
        return link.rate
    nodes = link.node(world_size - 1) + 1
    crossing = (nodes - 1) / nodes  # the least that leaves a node, as if it were one rank
    share = (world_size - 1) / world_size
    return min(link.rate, share / crossing * link.uplink) if crossing else link.rate


def worlds_of(text: str, worlds: Sequence[int]) -> Sequence[int]:
    """How many ranks to measure on the link `text`: as many as it has, where it has nodes."""
    nodes, _, ranks = text.partition("nodes=")[2].partition(",")[0].partition("x")
    if nodes.isdecimal() and ranks.isdecimal():
        worlds = [int(nodes) * int(ranks)]
    parse_link(text, worlds[0])  # refuses a wrong link before anything is measured
    return worlds


def _launched(text: str, world_size: int, sizes: Mapping[int, int]) -> Taken:
    link = parse_link(text, world_size)
    per_node = link.per_node if link.uplink else PER_NODE if world_size % PER_NODE == 0 else None
    inputs = {"sizes": dict(sizes), "per_node": per_node}
    evidence = launch(_on_rank, world_size, inputs=[inputs] * world_size, link=text, timeout=900.0)
    check_launch(evidence, "bench allreduce")
    return {
        int(nbytes): {
            GLOO if algorithm == LIBRARY else algorithm: statistics.median(seconds)
            for algorithm, seconds in by_algorithm.items()
        }
        for nbytes, by_algorithm in evidence.values[0].items()
    }


def _on_rank(inputs: dict) -> dict[str, dict[str, list[float]]]:
    seconds = time_all_reduces(inputs["sizes"], [*ALGORITHMS, LIBRARY], inputs["per_node"])
    return {str(nbytes): taken for nbytes, taken in seconds.items()}  # keys travel as text


def _of_mpi(text: str, world_size: int, sizes: Mapping[int, int]) -> dict[int, float]:
    taken = mpi.mpi_all_reduce_seconds(
        list(sizes), world_size, text, repeats=list(sizes.values()), timeout=600.0
    )
    return dict(zip(sizes, map(statistics.median, taken), strict=True))


def _conditions(rounds: int, sizes: Mapping[int, int], without_mpi: str | None) -> dict[str, str]:
    counts = ", ".join(f"{count} of {format_bytes(nbytes)}" for nbytes, count in sizes.items())
    fitted = " and ".join(format_bytes(nbytes) for nbytes in FITTED)
    return machine_conditions() | {
        "bus bandwidth": "2 (p-1)/p · bytes over seconds, as nccl-tests defines it",
        "bound": "bus bandwidth where each rank, and node, sends the least it can at full rate",
        "hierarchical": f"on nodes of {PER_NODE} ranks where the link has none of its own",
        "rounds": f"{rounds}; the median in each of {counts}, after one that is not counted",
        "model": f"α + β · bytes, fitted on {fitted}; the median error at the other sizes",
        "MPI": f"left out: {without_mpi}" if without_mpi else "by Open MPI's own choice",
    }


def _where(link: Link, world_size: int) -> str:
    return f"{format_rate(link.rate) if link.uplink is None else link.text}, {world_size} ranks"


def _format_seconds(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
