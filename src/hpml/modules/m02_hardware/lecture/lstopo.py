"""This node as hwloc's `lstopo` draws it, or, where that is not installed, as the library does."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import image
from matplotlib.figure import Figure

from hpml.machine.topology import read
from hpml.modules.m02_hardware.lecture.topology_picture import WIDTH, draw

LIMIT = 10.0  # seconds
DOTS = 150  # an inch; twice hwloc's sizes, which are meant for 75
# Numbers as the kernel counts them; without the legend, which has the host's name.
OPTIONS = ["--force", "--output-format", "png", "--physical", "--no-legend"]
LARGER = ["--fontsize", "20", "--gridsize", "14", "--linespacing", "8", "--thickness", "2"]


def draw_node() -> Figure:
    """The machine that this process may use: sockets, NUMA nodes, caches, cores, devices.

    Drawn by `lstopo`, the title says so; by `topology_picture.draw` where there is none, or where
    it draws no pictures (hwloc without Cairo).
    """
    with tempfile.TemporaryDirectory(prefix="hpml-lstopo-") as folder:
        pixels = _drawn(Path(folder) / "node.png")
    if pixels is None:
        return draw(read())
    height, width = (side / DOTS for side in pixels.shape[:2])
    shrunk = min(1.0, WIDTH / width)
    figure = Figure(figsize=(shrunk * width, shrunk * height + 0.35), dpi=DOTS / shrunk)
    axes = figure.add_axes((0, 0, 1, shrunk * height / (shrunk * height + 0.35)))
    axes.imshow(pixels, aspect="auto", interpolation="none")
    axes.axis("off")
    axes.set_title(f"{read().sentence()}, by lstopo", loc="left", fontsize=9)
    return figure


def _drawn(path: Path) -> np.ndarray | None:
    """The picture's pixels, as an array [height, width, 3 or 4]; None where lstopo makes none."""
    program = shutil.which("lstopo")
    if program is None:
        return None
    try:
        subprocess.run(
            [program, *OPTIONS, *LARGER, str(path)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT,
            check=True,
        )
        return image.imread(path)
    except (OSError, subprocess.SubprocessError, SyntaxError, ValueError):
        return None
