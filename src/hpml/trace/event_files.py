"""TensorBoard's event files, read: scalars, images, histograms, hyperparameters; profiles beside.

An event file is a row of records, each with its length and checksums, and in it an Event of
tensorboard/compat/proto/event.proto. TensorBoard reads all that are in a folder and below.
"""

import sys
import types
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hpml.errors import UserError

KINDS = ("scalars", "images", "histograms", "hyperparameters", "profiles")
PROFILES = "*.pt.trace.json*"


@dataclass(frozen=True)
class Histogram:
    """`counts` of numbers, float64 [n], between `edges`, float64 [n + 1]."""

    step: int
    edges: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True)
class LogFolder:
    """What is in a log folder, by name. A curve is (step, value) by (step, value).

    `images` are PNG files, `profiles` file names of torch.profiler's traces, `sizes` bytes by kind.
    """

    scalars: dict[str, list[tuple[int, float]]]
    images: dict[str, list[tuple[int, bytes]]] = field(repr=False)  # megabytes, in a notebook
    histograms: dict[str, list[Histogram]] = field(repr=False)
    hyperparameters: dict[str, bool | float | str]
    profiles: list[str]
    sizes: dict[str, int]

    def _repr_markdown_(self) -> str:
        rows = ["| in the folder | names | kB |", "|---|---|---:|"]
        for kind in KINDS:
            names = [f"`{name}`" for name in getattr(self, kind)]
            listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if names[4:] else "")
            rows.append(f"| {kind} | {listed} | {self.sizes[kind] / 1e3:.1f} |")
        return "\n".join(rows)


def read(folder: Path) -> LogFolder:
    """All events and the names of all profiles in `folder` and below it.

    Of a file that is cut off, the whole events are read. Raises UserError where there are none.
    """
    scalars, images, histograms = defaultdict(list), defaultdict(list), defaultdict(list)
    hyperparameters: dict[str, bool | float | str] = {}
    sizes: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    files = sorted(folder.rglob("events.out.tfevents.*"))
    for file in files:
        for step, value in _values(file):
            kind = value.WhichOneof("value")
            if kind == "simple_value":
                scalars[value.tag].append((step, value.simple_value))
                sizes["scalars"] += value.ByteSize()
            elif kind == "image":
                images[value.tag].append((step, value.image.encoded_image_string))
                sizes["images"] += value.ByteSize()
            elif kind == "histo":
                histograms[value.tag].append(_histogram(step, value.histo))
                sizes["histograms"] += value.ByteSize()
            elif value.metadata.plugin_data.plugin_name == "hparams":
                hyperparameters |= _hyperparameters(value.metadata.plugin_data.content)
                sizes["hyperparameters"] += value.ByteSize()
    traces = sorted(folder.rglob(PROFILES))
    sizes["profiles"] = sum(trace.stat().st_size for trace in traces)
    if not files and not traces:
        raise UserError(f"{folder}: no events.out.tfevents.* and no {PROFILES}: what wrote to it?")
    names = [str(trace.relative_to(folder)) for trace in traces]
    return LogFolder(
        dict(scalars), dict(images), dict(histograms), hyperparameters, names, dict(sizes)
    )


def leave_tensorflow_out() -> None:
    """Have TensorBoard open files by itself in this process, not by TensorFlow where that is there.

    It would import TensorFlow to make a folder: seconds, and a screen of TensorFlow's remarks.
    `tensorboard.compat` looks for a module of this name, and takes its own stand-in if it is there.
    """
    name = "tensorboard.compat.notf"
    sys.modules.setdefault(name, types.ModuleType(name))


def _values(file: Path) -> Iterator[tuple[int, Any]]:
    leave_tensorflow_out()
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    for record in RawEventFileLoader(str(file)).Load():
        event = Event.FromString(record)
        for value in event.summary.value:
            yield event.step, value


def _histogram(step: int, found: Any) -> Histogram:
    """Each bucket ends at its limit; the first one begins at the least number."""
    limits = np.array(found.bucket_limit)
    first = min(found.min, limits[0]) if len(limits) else found.min
    return Histogram(step, np.array([first, *limits]), np.array(found.bucket))


def _hyperparameters(content: bytes) -> dict[str, bool | float | str]:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    found = HParamsPluginData.FromString(content).session_start_info.hparams
    values = {name: getattr(value, value.WhichOneof("kind")) for name, value in found.items()}
    return dict(sorted(values.items()))  # in the file they have no order
