"""Profiles: reading a large trace, beside others that read it; and what recording costs a step.

Each reader is a process of its own that reads and breaks down the same file, and readers take turns
round by round. `json.load` breaks nothing down: it is what reading the text costs Python.
HolisticTraceAnalysis breaks down what a GPU ran; of a processor alone it finds the steps, and has
nothing to break down (0.5.0: `get_temporal_breakdown` ends in an IndexError). On traces of GPUs its
idle, computing and communication times are those of `hpml.trace.profiler`, to the microsecond; it
leaves out the last step. So the course reads traces itself, and compares with it here.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hpml.bench.repeated_trace import record, repeat
from hpml.bench.table import Row, Table, machine_conditions
from hpml.errors import UserError
from hpml.measure.profiling_overhead import OFF, STEPS, measure, training_step

MEGABYTES = 100
LIMIT = 600.0  # seconds for one reader; the slowest takes some forty
JSON = "json.load"
READERS = {
    "json": JSON,
    "hpml": "hpml.trace: shares, operators",
    "plugin": "torch_tb_profiler: all its views",
    "holistic": "HolisticTraceAnalysis: the steps",
}
NEEDS = {"plugin": "torch_tb_profiler", "holistic": "hta"}
TARGETS = {("hpml", "s"): "at most 2 ×", ("hpml", "MB"): "at most 0.5 ×"}
BATCHES = (1, 32)


def bench(
    rounds: int = 3, megabytes: int = MEGABYTES, report: Callable[[str], None] = print
) -> Table:
    """Measure in `rounds` rounds on a trace of `megabytes`; `report` gets a line for each round.

    Raises UserError where a reader fails or takes longer than `LIMIT`.
    """
    conditions = machine_conditions()
    taken: dict[tuple[str, str], list[float]] = {}
    there = [name for name in READERS if name not in NEEDS or importlib.util.find_spec(NEEDS[name])]
    for name in READERS.keys() - there:
        conditions[READERS[name].partition(":")[0]] = "not measured: pip install -e '.[traces]'"
    with tempfile.TemporaryDirectory(prefix="hpml-trace-") as folder:
        recorded, path = Path(folder, "recorded.json"), Path(folder, "large.json")
        record(recorded)
        steps = repeat(recorded, path, megabytes * 10**6)
        conditions["trace"] = (
            f"{path.stat().st_size / 1e6:.0f} MB, {steps} steps of a small network on the "
            "processor, with shapes and memory; in the cache of the file system"
        )
        for number in range(rounds):
            for name in there:
                seconds, peak = read_apart(name, path)
                taken.setdefault((name, "s"), []).append(seconds)
                taken.setdefault((name, "MB"), []).append(peak / 1e6)
            report(f"round {number + 1} of {rounds}")
    rows = [
        Row(
            READERS[name] + (", peak memory" if unit == "MB" else ""),
            values,
            unit,
            None if name == "json" else JSON + (", peak memory" if unit == "MB" else ""),
            TARGETS.get((name, unit), ""),
        )
        for (name, unit), values in sorted(taken.items(), key=lambda item: item[0][1] == "MB")
    ]
    for batch in BATCHES:
        rows += overhead(batch, rounds)
    conditions["seconds"] = "without the time to import; memory is the peak of the whole process"
    conditions["a step"] = (
        f"processor time of one thread, the quickest of {STEPS} steps; a network of two "
        "convolutions, by the number of images in a batch"
    )
    return Table("bench trace", rows, conditions)


def overhead(images: int, rounds: int) -> list[Row]:
    """Rows for a step of `images` images under each way to profile, in milliseconds."""
    found = measure(rounds, training_step(images))
    label = f"a step of {images} image{'s' * (images > 1)}, "
    return [
        Row(
            label + one.way,
            [1e3 * seconds for seconds in one.seconds],
            "ms",
            None if one.way == OFF else label + OFF,
        )
        for one in found
    ]


def read_apart(name: str, trace: Path) -> tuple[float, int]:
    """Seconds that the reader takes, and its process's peak memory in bytes."""
    command = [sys.executable, "-m", "hpml.bench.trace_readers", name, str(trace)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise UserError(f"bench trace: {READERS[name]}: no end after {LIMIT:.0f} s") from None
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise UserError(f"bench trace: {READERS[name]}: {last}") from None
    return found["seconds"], found["peak"]
