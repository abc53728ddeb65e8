"""All-reduce on real nodes: every algorithm timed, beside its α–β–γ model.

`srun … python -m hpml.bench.allreduce_study --out FOLDER` on each rank; leaves all_reduce.csv and
all_reduce.png in the folder. The backend follows the device: NCCL on GPUs, Gloo on CPUs.
"""

import argparse
import csv
import socket
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from hpml import distributed_environment
from hpml.allreduce import ALGORITHMS, schedule
from hpml.allreduce.timing import LIBRARY, Seconds, seconds_per_byte_added, time_all_reduces
from hpml.errors import USAGE, UserError
from hpml.measure.comm import Fit, bus_bandwidth, fit, ping_pong
from hpml.predict.collectives import Cost, least_seconds
from hpml.train.hardware import pick_device, process_group
from hpml.train.leaving import leave

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (4, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
PING_PONG = (4, 256, 1_024, 1_000_000, 10_000_000)
COLUMNS = (
    "algorithm",
    "ranks",
    "ranks_per_node",
    "bytes",
    "seconds",  # median
    "least_seconds",
    "most_seconds",
    "predicted_seconds",
    "bus_gbit_per_second",
)


@dataclass(frozen=True)
class Network:
    """The measured network: messages within a node, messages between nodes, adding up."""

    ranks: int
    per_node: int
    within: Fit | None  # None with one rank on each node
    across: Fit | None  # None on one node
    gamma: float

    def predicted(self, algorithm: str, nbytes: float) -> float:
        """Seconds by the α–β–γ model."""
        plan = schedule(algorithm, self.ranks, self.per_node)
        first = self.within or self.across
        cost = Cost(first.alpha, first.beta, self.gamma)
        shared = Cost(self.across.alpha, self.across.beta) if self.within and self.across else None
        return plan.seconds(nbytes, cost, self.per_node, shared)

    def least(self, nbytes: float) -> float:
        """Least seconds of an all-reduce: the bytes of a rank, and of a node, over its link."""
        one = self.within or self.across
        bounds = [least_seconds(nbytes, self.ranks, Cost(0, one.beta))]
        if self.across:
            nodes = self.ranks // self.per_node
            bounds.append(least_seconds(nbytes, nodes, Cost(0, self.across.beta)))
        return max(bounds)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    place = distributed_environment.read()
    try:
        if place.world_size < 2:
            raise UserError("an all-reduce wants 2 ranks at least: use srun or torchrun")
        torch.set_num_threads(asked.threads)
        device = pick_device(asked.device, place.local_rank)
        with process_group(place, device):
            network, seconds = study(asked.sizes, asked.repeats, device)
            backend = dist.get_backend()
    except UserError as error:
        print(f"allreduce_study: {error}", file=sys.stderr)
        return USAGE
    if place.rank == 0:
        asked.out.mkdir(parents=True, exist_ok=True)
        write(asked.out / "all_reduce.csv", network, seconds, backend)
        figure = drawn(network, seconds, backend)
        figure.savefig(asked.out / "all_reduce.png", dpi=150)
        _report(network, seconds, backend)
    return 0


def study(sizes: Sequence[int], repeats: int, device: torch.device) -> tuple[Network, Seconds]:
    """Measure the network, then every algorithm at each of `sizes`. A collective."""
    per_node = ranks_per_node()
    ranks = dist.get_world_size()
    within = across = None
    if per_node > 1:
        within = fit(PING_PONG, ping_pong(PING_PONG, 2 * repeats, device=device))
    if per_node < ranks:
        across = fit(PING_PONG, ping_pong(PING_PONG, 2 * repeats, per_node, device))
    gamma = seconds_per_byte_added(device=device)
    algorithms = [*ALGORITHMS, LIBRARY]
    seconds = time_all_reduces(dict.fromkeys(sizes, repeats), algorithms, per_node, device)
    return Network(ranks, per_node, within, across, gamma), seconds


def write(path: Path, network: Network, seconds: Seconds, backend: str) -> None:
    """A row for each algorithm and size; the library's own has no prediction."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for algorithm, nbytes, taken in _cases(seconds):
            middle = statistics.median(taken)
            own = algorithm != LIBRARY
            row = (
                algorithm if own else backend,
                network.ranks,
                network.per_node,
                nbytes,
                f"{middle:.3e}",
                f"{min(taken):.3e}",
                f"{max(taken):.3e}",
                f"{network.predicted(algorithm, nbytes):.3e}" if own else "",
                f"{bus_bandwidth(nbytes, network.ranks, [middle]) / 1e9:.4g}",
            )
            table.writerow(row)


def drawn(network: Network, seconds: Seconds, backend: str) -> "Figure":
    """Measured points on predicted curves, and the bound."""
    from hpml.predict.draw import Series, message_curves  # matplotlib, which rank 0 alone needs

    series: dict[str, Series] = {}
    for algorithm in [*ALGORITHMS, LIBRARY]:
        own = algorithm != LIBRARY
        points: dict[float, float] = {
            n: statistics.median(taken[algorithm]) for n, taken in seconds.items()
        }
        model = (lambda n, name=algorithm: network.predicted(name, n)) if own else None
        series[algorithm if own else f"{backend}'s own"] = Series(points, model)
    nodes, each = network.ranks // network.per_node, network.per_node
    panel = f"{nodes} node{'s' * (nodes > 1)} × {each} rank{'s' * (each > 1)}"
    return message_curves(
        {panel: series},
        bounds={panel: network.least},
        title="All-reduce: points measured, lines predicted",
    )


def _cases(seconds: Seconds) -> Iterator[tuple[str, int, list[float]]]:
    for nbytes, by_algorithm in seconds.items():
        for algorithm, taken in by_algorithm.items():
            yield algorithm, nbytes, taken


def ranks_per_node() -> int:
    """How many ranks each node has: the same number, numbered node by node.

    Raises UserError where that is not so.
    """
    hosts: list[str] = [""] * dist.get_world_size()
    dist.all_gather_object(hosts, socket.gethostname())
    count = hosts.count(hosts[0])
    in_order = list(dict.fromkeys(hosts))
    if hosts != [host for host in in_order for _ in range(count)]:
        raise UserError(
            f"ranks are on {', '.join(hosts)}: give each node as many (--ntasks-per-node) "
            "and number them node by node (--distribution=block)"
        )
    return count


def _report(network: Network, seconds: Seconds, backend: str) -> None:
    print(f"{network.ranks} ranks, {network.per_node} on each node, {backend}")
    for where, found in (("within a node", network.within), ("between nodes", network.across)):
        if found:
            print(f"{where}: {found}")
    print(f"adding up: γ = {network.gamma * 1e9:.3g} ns per byte")
    largest = max(seconds)
    for algorithm, taken in seconds[largest].items():
        reached = bus_bandwidth(largest, network.ranks, [statistics.median(taken)]) / 1e9
        name = backend if algorithm == LIBRARY else algorithm
        print(f"{name}: bus bandwidth {reached:.3g} Gbit/s with {largest / 1e6:g} MB")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hpml.bench.allreduce_study")
    parser.add_argument("--out", type=Path, required=True, help="folder for table and figure")
    parser.add_argument("--sizes", type=_sizes, default=SIZES, help="bytes, with commas between")
    parser.add_argument("--repeats", type=int, default=5, help="timings of each, one more is made")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=int, default=1, help="of each rank, for adding up")
    return parser


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(nbytes) for nbytes in text.split(","))


if __name__ == "__main__":
    leave(main())
