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

from hpml.allreduce.timing import time_all_reduces
from hpml.errors import UserError
from hpml.machine.resources import usable_memory
from hpml.measure.comm import bus_bandwidth
from hpml.ranks import launch

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
