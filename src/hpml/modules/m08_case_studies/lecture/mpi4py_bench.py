"""mpi4py's own benchmark, a ping-pong between two hosts, over an emulated link.

`python -m mpi4py.bench pingpong`
(https://mpi4py.readthedocs.io/en/stable/mpi4py.bench.html): the time of one message is half of a
round trip, and each line has the mean of some.
"""

import os
import re
import sys
import tempfile
from typing import NamedTuple

from hpml.allreduce.mpi import missing, run_on_hosts
from hpml.errors import UserError
from hpml.measure.comm import Fit
from hpml.network.link import parse_link

SMALLEST, LARGEST = 4, 1 << 22  # bytes
# Fewer repetitions than its own, so that it takes seconds on a slow link
COUNTS = {
    "--skip": 20,
    "--loop": 200,
    "--skip-large": 2,  # beyond 16 kB
    "--loop-large": 20,
    "--loop-huge": 4,  # beyond 1 MB
}
CLOSE = 0.2  # relative: two programs' β on one link
_LINE = re.compile(r"^ *(\d+) +[\d.]+ \| ([\d.e+-]+) ", re.MULTILINE)


def ping_pong_table(link: str, largest: int = LARGEST, timeout: float = 60.0) -> str:
    """What the benchmark prints for messages of 4, 8, 16 … `largest` bytes between two hosts.

    `link` as `hpml.ranks.launch` takes it. Raises UserError for what is missing here, and if mpirun
    fails or takes longer than `timeout` seconds.
    """
    parse_link(link, 2)
    if why := missing():
        raise UserError(f"MPI: {why}")
    bench = ["env", "PYTHONUTF8=1", sys.executable, "-m", "mpi4py.bench", "pingpong"]
    options = {"--min-size": SMALLEST, "--max-size": largest, **COUNTS}
    words = [str(word) for option in options.items() for word in option]
    with tempfile.TemporaryDirectory(prefix=f"hpml-mpi-{os.getpid()}-") as scratch:
        printed = run_on_hosts([*bench, *words], 2, link, scratch, {}, timeout)
    if len(seconds(printed)) < 2:
        raise UserError("MPI: mpi4py.bench has no pingpong here: it has one from mpi4py 4 on")
    return printed.strip()


def seconds(table: str) -> dict[int, float]:
    """Mean seconds of a message by its bytes, from what the benchmark printed."""
    return {int(nbytes): float(mean) for nbytes, mean in _LINE.findall(table)}


def alpha_beta(times: dict[int, float]) -> tuple[float, float]:
    """α from the smallest message, β from what the largest takes longer than the one before it."""
    *_, before, largest = sorted(times)
    return times[min(times)], (times[largest] - times[before]) / (largest - before)


class Messages(NamedTuple):
    """MPI's α and β, and how many times its α differs from another's."""

    held: bool
    alpha: float
    beta: float
    times: float


def beside(own: Fit, table: str) -> Messages:
    """Those of the table, beside those of torch.distributed's messages on the same link."""
    alpha, beta = alpha_beta(seconds(table))
    times = max(alpha / own.alpha, own.alpha / alpha)
    return Messages(abs(beta / own.beta - 1) < CLOSE, alpha, beta, times)
