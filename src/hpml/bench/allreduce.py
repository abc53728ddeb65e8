"""All-reduce by every algorithm, from 4 bytes to 64 MB, beside Gloo's, MPI's and the bound."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from hpml.allreduce import ALGORITHMS, mpi
from hpml.allreduce.timing import LIBRARY, timed
from hpml.bench.table import Row, Table, machine_conditions
from hpml.link import Link, parse_link, say_rate
from hpml.measure.comm import bus_bandwidth, fit
from hpml.problem import UserError
from hpml.ranks import launch

# Bytes, and how often in a round, besides once that is not counted
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
FITTED = (4, 16_000_000)  # the sizes that the α–β model is fitted on
JUDGED = ("1gbit", 4, 16_000_000)  # link, ranks and bytes that targets are set for
OURS, GLOO, MPI = ALGORITHMS, "Gloo", "MPI"
PER_NODE = 2  # of the hierarchical one, on a network without nodes


def bench(
    rounds: int = 3,
    links: Sequence[str] = ("1gbit",),
    sizes: Mapping[int, int] = SIZES,
    worlds: Sequence[int] = WORLDS,
    say: Callable[[str], None] = print,
) -> Table:
    """Measure in `rounds` rounds; `say` hears of each launch.

    A link with nodes is measured with as many ranks as it has. MPI is left out where it is missing.

    Raises UserError where this machine cannot emulate a network.
    """
    without_mpi = mpi.missing()
    cases = [(text, world_size) for text in links for world_size in _worlds(text, worlds)]
    conditions = machine_conditions()
    conditions["bus bandwidth"] = "2 (p-1)/p · bytes over seconds, as nccl-tests defines it"
    conditions["bound"] = "bus bandwidth if each rank, or node, sent the least it can at full rate"
    conditions["hierarchical"] = f"nodes are those of the link, or else of {PER_NODE} ranks"
    conditions["rounds"] = f"{rounds}; medians of " + ", ".join(
        f"{count} of {_say_bytes(nbytes)}" for nbytes, count in sizes.items()
    )
    conditions["model"] = (
        f"α + β · bytes, fitted on {' and '.join(_say_bytes(nbytes) for nbytes in FITTED)}; "
        "median of its relative errors at the other sizes"
    )
    conditions["MPI"] = f"left out: {without_mpi}" if without_mpi else "Open MPI's own choice"
    found: dict[tuple[str, int], list[dict[int, dict[str, float]]]] = {case: [] for case in cases}
    for number in range(1, rounds + 1):
        for text, world_size in cases:
            seconds = _launched(text, world_size, sizes)
            if not without_mpi:
                for nbytes, taken in _of_mpi(text, world_size, sizes).items():
                    seconds[nbytes][MPI] = taken
            found[text, world_size].append(seconds)
            say(f"round {number} of {rounds}: {world_size} ranks, {text}")
    names = [*OURS, GLOO, *([] if without_mpi else [MPI])]
    rows = [
        row
        for (text, world_size), measured in found.items()
        for row in _rows(parse_link(text, world_size), world_size, names, measured)
    ]
    return Table("All-reduce over emulated links", rows, conditions)


def _worlds(text: str, worlds: Sequence[int]) -> Sequence[int]:
    if "=" not in text:
        return worlds
    for world_size in range(1, 65):
        try:
            return [world_size] if parse_link(text, world_size) else []
        except UserError:
            continue
    parse_link(text, 4)  # says what is wrong with it
    return []


def _launched(text: str, world_size: int, sizes: Mapping[int, int]) -> dict[int, dict[str, float]]:
    link = parse_link(text, world_size)
    per_node = link.per_node if link.uplink else PER_NODE if world_size % PER_NODE == 0 else None
    inputs = {"sizes": dict(sizes), "per_node": per_node}
    evidence = launch(_on_rank, world_size, inputs=[inputs] * world_size, link=text, timeout=900.0)
    if evidence.no_link:
        raise UserError(
            f"bench allreduce: no network can be emulated here: {evidence.no_link}; "
            "./hpml doctor says what this machine has"
        )
    if evidence.diagnosis is not None:
        raise UserError(f"bench allreduce: {evidence.diagnosis.sentence}")
    return {
        int(nbytes): {
            GLOO if algorithm == LIBRARY else algorithm: statistics.median(seconds)
            for algorithm, seconds in by_algorithm.items()
        }
        for nbytes, by_algorithm in evidence.values[0].items()
    }


def _on_rank(inputs: dict) -> dict[str, dict[str, list[float]]]:
    seconds = timed(inputs["sizes"], [*ALGORITHMS, LIBRARY], inputs["per_node"])
    return {str(nbytes): taken for nbytes, taken in seconds.items()}  # keys travel as text


def _of_mpi(text: str, world_size: int, sizes: Mapping[int, int]) -> dict[int, float]:
    taken = mpi.mpi_all_reduce_seconds(
        list(sizes), world_size, text, repeats=list(sizes.values()), timeout=600.0
    )
    return dict(zip(sizes, map(statistics.median, taken), strict=True))


def _rows(
    link: Link,
    world_size: int,
    names: Sequence[str],
    measured: Sequence[Mapping[int, Mapping[str, float]]],
) -> list[Row]:
    where = f"{say_rate(link.rate) if link.uplink is None else link.text}, {world_size} ranks"
    bound = f"{where}: bound"
    rows = [Row(bound, [_bound(link, world_size) / 1e6] * len(measured), "Mbit/s")]
    for nbytes in measured[0]:
        judged = (link.text, world_size, nbytes) == JUDGED
        for name in names:
            reached = [bus_bandwidth(nbytes, world_size, [one[nbytes][name]]) for one in measured]
            target = "at least 0.90" if judged and name == "ring" else ""
            title = f"{where}, {_say_bytes(nbytes)}: {name}"
            rows.append(Row(title, [each / 1e6 for each in reached], "Mbit/s", bound, target))
    latency, largest = min(measured[0]), max(n for n in measured[0] if n <= JUDGED[2])
    for name in names:
        taken = [1e6 * one[latency][name] for one in measured]
        rows.append(Row(f"{where}, {_say_bytes(latency)}: {name}, time", taken, "µs"))
    for name in (GLOO, "ring"):
        taken = [1e3 * one[largest][name] for one in measured]
        base = None if name == GLOO else f"{where}, {_say_bytes(largest)}: {GLOO}, time"
        judged = name == "ring" and (link.text, world_size, largest) == JUDGED
        title = f"{where}, {_say_bytes(largest)}: {name}, time"
        rows.append(Row(title, taken, "ms", base, "at most 1.05" if judged else ""))
    if set(FITTED) < set(measured[0]):
        for name in names:
            errors = [100 * model_error(one, name) for one in measured]
            target = "under 15" if name in OURS and link.text == JUDGED[0] else ""
            rows.append(Row(f"{where}: {name}, error of the model", errors, "%", target=target))
    return rows


def model_error(seconds: Mapping[int, Mapping[str, float]], name: str) -> float:
    """By how much α + β · bytes, fitted on two sizes, misses the others: the median."""
    line = fit(FITTED, [seconds[nbytes][name] for nbytes in FITTED])
    others = {nbytes: taken[name] for nbytes, taken in seconds.items() if nbytes not in FITTED}
    return statistics.median(abs(line.seconds(n) / taken - 1) for n, taken in others.items())


def _bound(link: Link, world_size: int) -> float:
    """The bus bandwidth, in bit/s, that no all-reduce can exceed on this network."""
    share = (world_size - 1) / world_size
    if link.uplink is None:
        return link.rate
    nodes = link.node(world_size - 1) + 1
    crossing = (nodes - 1) / nodes  # what leaves a node, at the least, as if it were one rank
    return min(link.rate, share / crossing * link.uplink) if crossing else link.rate


def _say_bytes(nbytes: int) -> str:
    for unit, factor in (("MB", 10**6), ("kB", 10**3)):
        if nbytes >= factor:
            return f"{nbytes / factor:g} {unit}"
    return f"{nbytes} B"
