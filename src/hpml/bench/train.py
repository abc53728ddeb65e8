"""How fast and how well the one training script trains on this machine.

A full run, for time and test accuracy; and images/s of short runs at 1 rank × 1 thread, 1 × 2 and
2 × 1, taken in turn in each round, so that other load affects all three alike. Or the short
runs on 2 ranks, with one back end and another.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from hpml.bench.table import Row, Table, machine_conditions
from hpml.data import load
from hpml.errors import UserError
from hpml.measure.compute import peak
from hpml.ranks.flavour import missing
from hpml.train.history import History, read_history

LAYOUTS = ((1, 1), (1, 2), (2, 1))  # ranks, threads of each
BASE = "1 rank × 1 thread"
# Whole images all the time: what a step costs must not change on the way.
SHORT_RUN = (
    *("--epochs", "2", "--samples", "4000", "--test-samples", "100"),
    *("--lr-rule", "none", "--early-share", "0"),
)
COMPARED = {"ddp": "DistributedDataParallel", "horovod": "Horovod"}
LIMIT = 3600.0


def run(ranks: int, options: Sequence[str], limit: float = LIMIT) -> History:
    """The training script with `options` in processes of its own: `ranks` of them, by torchrun.

    Raises UserError with its last line of output when it fails or takes longer than `limit`
    seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "history.json"
        launcher = ["-m", "hpml.train"]
        if ranks > 1:
            launcher = ["-m", "torch.distributed.run", "--standalone"]
            launcher += [f"--nproc-per-node={ranks}", "-m", "hpml.train"]
        command = [sys.executable, *launcher, *options, "--no-progress", "--out", str(out)]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"bench train: {ranks} ranks were not done after {limit:.0f} s: "
                "is the machine busy with something else?"
            ) from None
        if ended.returncode or not out.exists():
            said = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
            raise UserError(f"bench train: {said[-1]}")
        return read_history(out)


def bench(
    data: str | None,
    rounds: int = 3,
    seeds: Sequence[int] = (0,),
    threads: int = 2,
    say: Callable[[str], None] = print,
) -> Table:
    """Measure; `say` is called after each run. No full run when `seeds` is empty."""
    conditions = machine_conditions()
    fp32, bf16 = (peak(dtype, threads) / 1e9 for dtype in (torch.float32, torch.bfloat16))
    # Processors of one name differ by a factor of two here, and so do the run times.
    conditions["matrix product"] = (
        f"{fp32:.0f} GFLOP/s in float32, {bf16:.0f} in bfloat16, {threads} threads"
    )
    where = [] if data is None else ["--data", data]
    conditions["data"] = load(data).describe()
    histories: dict[str, list[History]] = {}
    for number in range(rounds):
        for ranks, layout_threads in LAYOUTS:
            name = _name(ranks, layout_threads)
            history = run(ranks, [*where, *SHORT_RUN, "--threads", str(layout_threads)])
            histories.setdefault(name, []).append(history)
            say(f"round {number + 1} of {rounds}, {name}: {_speed(history):.0f} images/s")
    rows = [
        Row(
            name,
            [_speed(history) for history in histories[name]],
            "images/s",
            base=None if name == BASE else BASE,
            target="at least 1.8" if name == _name(2, 1) else "",
        )
        for name in histories
    ]
    full = []
    for seed in seeds:
        history = run(1, [*where, "--threads", str(threads), "--seed", str(seed)])
        full.append(history)
        say(f"full run, seed {seed}: {history.test_accuracy:.2%} in {history.seconds:.0f} s")
    if full:
        rows += [
            Row(
                "full run: test accuracy",
                [100 * history.test_accuracy for history in full],
                "%",
                target="at least 90 %",
            ),
            Row(
                "full run: training",
                [history.seconds / 60 for history in full],
                "min",
                target="at most 15 min",
            ),
        ]
        conditions["full run"] = (
            f"{len(full[0].epochs)} epochs, 1 rank × {threads} threads, {full[0].precision}, "
            f"seeds {', '.join(map(str, seeds))}; no test-time augmentation; "
            "time without the test after each epoch"
        )
    conditions["images/s"] = (
        f"loading included, of the last of two epochs of 4000 images, {rounds} rounds interleaved"
    )
    return Table("bench train", rows, conditions)


def compare(
    data: str | None,
    backends: Sequence[str],
    rounds: int = 3,
    say: Callable[[str], None] = print,
) -> Table:
    """Images/s of short runs on 2 ranks with 1 thread each, by back end; the first is the base.

    All are started in the same way, by torchrun, and all talk through Gloo. Raises UserError for a
    back end that is unknown or not installed.
    """
    for backend in backends:
        if backend not in COMPARED:
            raise UserError(f"--backends: {backend!r} is none of {', '.join(COMPARED)}")
    if "horovod" in backends and (why := missing("horovod")):
        raise UserError(f"--backends horovod: {why}")
    conditions = machine_conditions()
    where = [] if data is None else ["--data", data]
    conditions["data"] = load(data).describe()
    speeds: dict[str, list[float]] = {backend: [] for backend in backends}
    for number in range(rounds):
        for backend in backends:
            options = [*where, *SHORT_RUN, "--threads", "1", "--backend", backend]
            speeds[backend].append(_speed(run(2, options)))
            told = f"{COMPARED[backend]}: {speeds[backend][-1]:.0f} images/s"
            say(f"round {number + 1} of {rounds}, {told}")
    conditions["images/s"] = (
        f"2 ranks × 1 thread, loading included, of the last of two epochs of 4000 images, "
        f"{rounds} rounds interleaved"
    )
    base = COMPARED[backends[0]]
    rows = [
        Row(
            COMPARED[backend],
            speeds[backend],
            "images/s",
            base=None if COMPARED[backend] == base else base,
            target="at least 0.9" if (backends[0], backend) == ("ddp", "horovod") else "",
        )
        for backend in backends
    ]
    return Table("bench train --backends", rows, conditions)


def _name(ranks: int, threads: int) -> str:
    plural = "s" if ranks > 1 else "", "s" if threads > 1 else ""
    return f"{ranks} rank{plural[0]} × {threads} thread{plural[1]}"


def _speed(history: History) -> float:
    # The first epoch has one-off costs: kernels chosen, pages touched.
    return history.epochs[-1].images_per_second
