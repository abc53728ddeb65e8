"""mpi4py's own benchmark, a ping-pong between two hosts, over an emulated link.

`python -m mpi4py.bench pingpong`
(https://mpi4py.readthedocs.io/en/stable/mpi4py.bench.html): the time of one message is half of a
round trip, and each line has the mean of some.
"""

import os
import re
import sys
import tempfile

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


def of_messages(own: Fit, table: str) -> tuple[bool, str, str]:
    """For `conclude`: MPI's α and β beside those of torch.distributed's messages on this link."""
    alpha, beta = alpha_beta(seconds(table))
    seen = (
        f"a message of MPI has α = {1e6 * alpha:.0f} µs and β = {1e9 * beta:.2f} ns per byte, one "
        f"of torch.distributed {1e6 * own.alpha:.0f} µs and {1e9 * own.beta:.2f} ns"
    )
    return (
        abs(beta / own.beta - 1) < CLOSE,
        f"**Answer.** {seen[0].upper()}{seen[1:]}. β is the link's, so it is nearly the same; α is "
        f"the software's, and differs {max(alpha / own.alpha, own.alpha / alpha):.1f} times.",
        f"{seen}. mpi4py prints means: a message that waited for a processor counts in full.",
    )
