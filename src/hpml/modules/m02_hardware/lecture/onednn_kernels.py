"""Which kernels oneDNN chose for a training step, by their names.

In a process of its own: oneDNN reads its variables when it is loaded, and prints to the process's
standard output (oneDNN developer guide, "Verbose mode" and "CPU dispatcher control").
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hpml.errors import UserError
from hpml.frameworks import task
from hpml.frameworks.run import ONE_THREAD

PASSES = {
    "forward_training": "forward",
    "backward_data": "backward to the input",
    "backward_weights": "backward to the weights",
}
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "float32": {},
    "bfloat16": {"HPML_DTYPE": "bfloat16"},
    "float32, AVX2 only": {"ONEDNN_MAX_CPU_ISA": "AVX2"},
}
NONE = "not oneDNN's"
LIMIT = 120.0


@dataclass(frozen=True)
class Kernels:
    """Of one setting: the implementation that most convolutions of each pass had, by the name of
    the pass; seconds of the quickest step."""

    convolution: dict[str, str]
    step: float


def parse(printed: str) -> dict[str, str]:
    """What oneDNN's verbose mode printed: the commonest implementation of each pass.

    A line: marker, version, "primitive", "exec", engine, primitive, implementation, pass, ...
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in PASSES}
    for line in printed.splitlines():
        fields = line.split(",")
        if fields[0] == "onednn_verbose" and fields[2:4] == ["primitive", "exec"]:
            primitive, implementation, propagation = fields[5:8]
            if primitive == "convolution" and propagation in counts:
                # "data+weights" is one kernel made of another: the first name says which
                counts[propagation][implementation.split("+")[0]] += 1
    return {PASSES[p]: count.most_common(1)[0][0] for p, count in counts.items() if count}


def kernels() -> dict[str, Kernels]:
    """The kernels of a step of the course's network, by setting; one thread each.

    Raises UserError where a process fails.
    """
    return {name: _of(name, environment) for name, environment in SETTINGS.items()}


def _of(name: str, environment: Mapping[str, str]) -> Kernels:
    script = str(Path(__file__).with_name("step_torch.py"))
    own = {**ONE_THREAD, "ONEDNN_VERBOSE": "1", "HPML_STEPS": "3", **environment}
    try:
        done = subprocess.run(
            [sys.executable, script],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env={**os.environ, **own},
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"{name}: three training steps took more than {LIMIT:.0f} s") from None
    results = [line for line in done.stdout.splitlines() if line.startswith(task.RESULT)]
    if done.returncode or not results:
        raise UserError(f"{name}: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
    record = json.loads(results[-1].removeprefix(task.RESULT))
    return Kernels(parse(done.stdout), record["step"])


def table(found: Mapping[str, Kernels]) -> str:
    """A row for each setting: the kernel of each pass."""
    rows = [("", *PASSES.values())]
    rows += [
        (name, *(one.convolution.get(p, NONE) for p in PASSES.values()))
        for name, one in found.items()
    ]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    return "\n".join(
        "".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


class Forward(NamedTuple):
    """The kernel of most forward convolutions by setting. `held`: it has the instructions behind a
    colon, and bfloat16 has another or none. `newer`: the processor has more than AVX2."""

    held: bool
    newer: bool
    float32: str
    bfloat16: str
    avx2: str


def forward(found: Mapping[str, Kernels]) -> Forward:
    """Of the three SETTINGS."""
    wide, brain, old = (one.convolution.get("forward", NONE) for one in found.values())
    return Forward(":" in wide and brain not in (wide, old), wide != old, wide, brain, old)
