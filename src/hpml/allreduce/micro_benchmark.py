"""The all-reduce micro-benchmark, in the form that users of OSU's and NVIDIA's know.

A row for each size: bytes, seconds, algorithm bandwidth (bytes over seconds) and bus bandwidth,
2 (p-1)/p times that (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
"""

import csv
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpml.allreduce.curves import Network
from hpml.allreduce.timing import time_all_reduces
from hpml.errors import UserError
from hpml.machine.resources import usable_memory
from hpml.measure.comm import bus_bandwidth
from hpml.predict.collectives import Cost
from hpml.predict.ring_crossover import crossover
from hpml.ranks import launch
from hpml.trace.space_time import format_bytes

LARGEST = 1 << 28  # 256 MB, in powers of two
COPIES = 6  # of the tensor, over all ranks of two: themselves, what they receive, Gloo's buffers
ENOUGH = 1 << 26  # bytes; of larger sizes two repetitions, of small ones twenty

Times = dict[int, float]  # seconds by bytes


def sizes(largest: int = LARGEST) -> list[int]:
    """4 B, 16 B, 64 B … up to `largest` bytes, and no more than this machine's memory allows."""
    most = min(largest, usable_memory() // (2 * COPIES))
    return [4 << k for k in range(0, 64, 2) if 4 << k <= most]


def on_this_machine(
    algorithms: Sequence[str], of: Sequence[int], ranks: int = 2
) -> dict[str, Times]:
    """Seconds by algorithm and bytes, between ranks of this machine with no link between them.

    Of each size the quickest repetition, on the rank that took longest. `algorithms` as
    `time_all_reduces` takes them. Raises UserError where the launch fails.
    """
    inputs = {"algorithms": list(algorithms), "sizes": {n: repetitions(n) for n in of}}
    evidence = launch(_on_rank, ranks, inputs=[inputs] * ranks, timeout=600.0)
    if evidence.diagnosis is not None:
        raise UserError(evidence.diagnosis.sentence)
    found: dict[str, Times] = {name: {} for name in algorithms}
    for nbytes, by_algorithm in evidence.values[0].items():
        for name, seconds in by_algorithm.items():
            found[name][int(nbytes)] = min(seconds)
    return found


def repetitions(nbytes: int) -> int:
    return max(2, min(20, ENOUGH // max(nbytes, 1)))


def repeated(of: Sequence[int]) -> list[int]:
    """Repetitions over a link for each of these sizes: many of small ones, two of large ones."""
    return [max(2, min(20, (1 << 22) // max(nbytes, 1))) for nbytes in of]


def _on_rank(inputs: dict) -> dict[str, dict[str, list[float]]]:
    of = {int(nbytes): count for nbytes, count in inputs["sizes"].items()}
    seconds = time_all_reduces(of, inputs["algorithms"])
    return {str(nbytes): taken for nbytes, taken in seconds.items()}  # keys travel as text


def nccl(of: Sequence[int], device: str = "cuda", ranks: int | None = None) -> Times:
    """Seconds by bytes of NCCL's own all-reduce over this machine's GPUs, in a job of torchrun.

    By `hpml.bench.allreduce_study`, which nodes of a cluster run as well; with `device` "cpu" it is
    Gloo's. Raises UserError where the job fails.
    """
    import torch

    ranks = ranks or torch.cuda.device_count()
    with tempfile.TemporaryDirectory(prefix=f"hpml-nccl-{os.getpid()}-") as folder:
        study = ["-m", "hpml.bench.allreduce_study", "--out", folder, "--device", device]
        study += ["--sizes", ",".join(map(str, of)), "--repeats", "5"]
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        done = subprocess.run(
            [sys.executable, *torchrun, *study],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            raise UserError(f"all-reduce over {ranks} GPUs: torchrun failed: {' '.join(last)}")
        with Path(folder, "all_reduce.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    own = [row for row in rows if not row["predicted_seconds"]]  # the library's has no model
    return {int(row["bytes"]): float(row["seconds"]) for row in own}


def table(times: Mapping[int, float], ranks: int) -> str:
    """Bytes, µs, algorithm and bus bandwidth in GB/s (10⁹ bytes), a line for each size."""
    lines = [f"{'bytes':>10} {'time (µs)':>12} {'algbw (GB/s)':>13} {'busbw (GB/s)':>13}"]
    for nbytes, seconds in times.items():
        algorithm = nbytes / seconds / 1e9
        bus = bus_bandwidth(nbytes, ranks, [seconds]) / 8e9
        lines.append(f"{nbytes:10} {1e6 * seconds:12.1f} {algorithm:13.5f} {bus:13.5f}")
    return "\n".join(lines)


def latency_then_bandwidth(times: Mapping[int, float]) -> tuple[bool, str, str]:
    """For `conclude`: what a thousand times the bytes cost at the small end, four times at the
    large end."""
    by_size = sorted(times)
    first, large = by_size[0], by_size[-1]
    small = max(n for n in by_size if n <= 1024 * first)
    before = by_size[-2]
    more, much = times[small] / times[first], times[large] / times[before]
    seen = (
        f"{small // first:,} times the bytes, {format_bytes(small)} for {format_bytes(first)}, "
        f"take {more:.1f} times as long; {large // before} times the bytes, {format_bytes(large)} "
        f"for {format_bytes(before)}, take {much:.1f} times as long."
    )
    return (
        more < small / first / 30 and much > 2,
        f"{seen} Small messages cost α each; large ones cost β for each byte.",
        f"{seen} On a machine with other work both ends are blurred.",
    )


def who_wins(
    network: Network, doubling: Mapping[int, float], ring: Mapping[int, float]
) -> tuple[bool, str, str]:
    """For `conclude`: recursive doubling at the small end, the ring at the large one, and where
    the model has them equal. From 16 B for each rank on, so that a ring has all its messages."""
    both = [n for n in sorted(doubling) if n in ring and n >= 16 * network.ranks]
    small, large = both[0], both[-1]
    quick, slow = ring[small] / doubling[small], doubling[large] / ring[large]
    line = network.within
    equal = crossover(network.ranks, Cost(line.alpha, line.beta))
    seen = (
        f"{format_bytes(small)}: the ring takes {quick:.1f} times as long as recursive doubling. "
        f"{format_bytes(large)}: recursive doubling takes {slow:.2f} times as long as the ring."
    )
    # Ranks that share cores wake each other late, so a message costs more with all of them at work.
    alpha = ring[small] / (2 * (network.ranks - 1))
    all_at_once = crossover(network.ranks, Cost(alpha, line.beta))
    sooner = min((n for n in both if ring[n] < doubling[n]), default=large)
    return (
        quick > 1 and slow > 1,
        f"{seen} Of the sizes measured, it is quicker from {format_bytes(sooner)} on. By the model "
        f"they are equal at {format_bytes(equal)} with the α of two ranks alone, "
        f"{1e6 * line.alpha:.0f} µs, and at {format_bytes(all_at_once)} with that of a ring's "
        f"message for {format_bytes(small)}, {1e6 * alpha:.0f} µs.",
        f"{seen} Four ranks that share few cores wake each other late: repeat on an idle machine.",
    )


def software_and_link(
    python: Mapping[int, float], c: Mapping[int, float], ranks: int
) -> tuple[bool, str, str]:
    """For `conclude`: one algorithm in two languages, at the small end and at the large one."""
    both = [n for n in sorted(python) if n in c and n >= 16 * ranks]
    small, large = python[both[0]] / c[both[0]], python[both[-1]] / c[both[-1]]
    seen = (
        f"{format_bytes(both[0])}: the ring in Python takes {small:.1f} times as long as in C. "
        f"{format_bytes(both[-1])}: {large:.2f} times as long."
    )
    return (
        small > 1.3 * large,
        f"{seen} α is mostly software, β is the link.",
        f"{seen} More ranks than free cores wait for each other, in whatever language.",
    )
