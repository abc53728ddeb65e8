"""A machine as boxes in boxes, as hwloc's `lstopo` draws it, and who runs where on it.

Sockets, in them NUMA nodes with their memory and GPUs, in them cores under the cache they share. On
a small machine a core shows its own caches too. Every number is a CPU's, as the kernel counts.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from hpml.machine.topology import Cache, Core, Topology

WIDTH = 10.5  # inches
MANY = 8  # cores: of more, a picture shows numbers alone
LINE, GAP = 0.55, 0.2  # heights, in units of a small core's width
# Colours that differ for colour-blind readers (Okabe and Ito, 2008), lightened so that text on them
# can be read; neighbours differ in grey as well.
RANKS = ("#56b4e9", "#f5d58f", "#66c5ab", "#e0a9c7", "#f7efa0", "#7fb8d8", "#eaae7f", "#cccccc")
RESERVED = "#555555"


@dataclass(frozen=True)
class Box:
    """A rectangle with a label and boxes in it; width and height in units."""

    width: float
    height: float
    paint: Callable[[Axes, float, float], None]  # at its left lower corner


@dataclass(frozen=True)
class Occupied:
    """Which CPUs each rank may use, and which are kept for the system."""

    ranks: Sequence[frozenset[int]] = ()
    reserved: frozenset[int] = field(default_factory=frozenset)

    def of(self, cpu: int) -> list[int]:
        return [rank for rank, cpus in enumerate(self.ranks) if cpu in cpus]


def draw(
    machine: Topology,
    ranks: Sequence[Iterable[int]] = (),
    *,
    reserved: Iterable[int] = (),
    title: str = "",
) -> Figure:
    """The machine; with `ranks`, the CPUs of each rank in a colour of its own.

    `reserved` are CPUs that no rank is meant to use. A CPU of two ranks has the colours of both.
    """
    return compare(machine, {title or machine.sentence(): ranks}, reserved=reserved)


def compare(
    machine: Topology,
    placements: Mapping[str, Sequence[Iterable[int]]],
    *,
    reserved: Iterable[int] = (),
    title: str = "",
) -> Figure:
    """The same machine once for each of `placements`, one below the other, under its key."""
    boxes, reserved = [], frozenset(reserved)
    for ranks in placements.values():
        occupied = Occupied([frozenset(cpus) for cpus in ranks], reserved)
        boxes.append(_machine(machine, occupied))
    # A machine of two cores must not become a picture of two huge ones.
    scale = min(WIDTH / (boxes[0].width + 0.2), 0.62)
    handles = _legend(max(map(len, placements.values())), bool(reserved))
    lines = len(boxes) + bool(title) + bool(handles)
    height = sum(box.height for box in boxes) * scale + 0.35 * lines
    # Nor has a small one half of a canvas that is empty; titles and legends need the other half.
    width = min(WIDTH, max((boxes[0].width + 0.2) * scale, WIDTH / 2 + 0.2))
    wide = width if not (handles or title or len(boxes) > 1) else WIDTH
    figure = Figure(figsize=(wide, height), layout="constrained")
    places = figure.subplots(len(boxes), 1, squeeze=False)[:, 0]
    for axes, box, name in zip(places, boxes, placements, strict=True):
        # Half of a line's width would else be cut off at the edges.
        axes.set(xlim=(-0.1, wide / scale), ylim=(-0.1, box.height + 0.1), aspect="equal")
        axes.axis("off")
        axes.set_title(name, loc="left", fontsize=10)
        box.paint(axes, 0, 0)
    if handles:
        places = {"loc": "outside lower left", "ncols": 9, "frameon": False, "fontsize": 8}
        figure.legend(handles=handles, **places)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def size(nbytes: int) -> str:
    """Bytes as a cache or a memory has them: 48 KiB, 32 MiB, 23.5 GiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if nbytes < 1024 or unit == "GiB":
            return f"{nbytes:.3g} {unit}"
        nbytes /= 1024
    raise AssertionError


def _legend(ranks: int, reserved: bool) -> list[Patch]:
    """A patch of its colour for each rank; beyond the colours there are, ranks share one."""
    handles = []
    for number, colour in enumerate(RANKS[:ranks]):
        alike = ", ".join(map(str, range(number, ranks, len(RANKS))))
        handles.append(Patch(facecolor=colour, edgecolor="black", label=f"rank {alike}"))
    if reserved:
        kept = Patch(fill=False, edgecolor=RESERVED, hatch="////", label="for the system")
        handles.append(kept)
    return handles


def _machine(machine: Topology, occupied: Occupied) -> Box:
    small = len(machine.cores) <= MANY
    sockets = []
    for socket in machine.sockets:
        nodes = sorted({core.numa for core in machine.cores if core.socket == socket})
        inner = [_numa(machine, node, socket, occupied, small) for node in nodes]
        sockets.append(_around(f"socket {socket}", inner, "#f2f2f2"))
    return _row(sockets, columns=len(sockets))


def _numa(machine: Topology, node: int, socket: int, occupied: Occupied, small: bool) -> Box:
    cores = [core for core in machine.in_numa(node) if core.socket == socket]
    groups: dict[Cache | None, list[Core]] = {}
    for core in cores:
        groups.setdefault(_cache(machine, core, 3), []).append(core)
    inner = []
    for cache, members in groups.items():
        cells = [_core(machine, core, occupied, small) for core in members]
        label = f"L3 {size(cache.nbytes)}" if cache else ""
        # Many cores lie in wide rows: two sockets stand side by side.
        columns = None if small else 2 ** math.ceil(math.log2(2 * len(cells)) / 2)
        row = _row(cells, columns)
        inner.append(_around(label, [row], "#fafafa") if cache else row)
    memory = (machine.memory or {}).get(node)
    words = f"NUMA node {node}" + (f", memory {size(memory)}" if memory else "")
    gpus = [f"GPU {n}" for n, gpu in enumerate(machine.gpus) if gpu.numa == node]
    return _around(words, inner, "#e4e4e4", foot="   ".join(gpus))


def _core(machine: Topology, core: Core, occupied: Occupied, small: bool) -> Box:
    """A core: a field for each hardware thread, and on a small machine its caches."""
    lines = []
    if small:
        for level, kind, name in ((2, "Unified", "L2"), (1, "Data", "L1 data")):
            cache = _cache(machine, core, level, kind)
            lines += [f"{name} {size(cache.nbytes)}"] if cache else []
        lines.append("core")
    width, thread = (3.2, 0.9) if small else (1.0, 0.5)
    height = LINE * len(lines) + thread * len(core.cpus)

    def paint(axes: Axes, left: float, low: float) -> None:
        for number, cpu in enumerate(reversed(core.cpus)):
            _thread(axes, (left, low + number * thread), (width, thread), cpu, occupied, small)
        for number, line in enumerate(reversed(lines)):
            base = low + thread * len(core.cpus) + LINE * number
            _rectangle(axes, left, base, width, LINE, "white", 0.3)
            _words(axes, left + width / 2, base + LINE / 2, line, small)
        _rectangle(axes, left, low, width, height, "none", 0.9)

    return Box(width, height, paint)


def _thread(
    axes: Axes,
    corner: tuple[float, float],
    extent: tuple[float, float],
    cpu: int,
    occupied: Occupied,
    small: bool,
) -> None:
    (left, low), (width, height) = corner, extent
    ranks = occupied.of(cpu)
    for number, rank in enumerate(ranks):
        share = width / len(ranks)
        colour = RANKS[rank % len(RANKS)]
        axes.add_patch(Rectangle((left + number * share, low), share, height, facecolor=colour))
    if not ranks:
        axes.add_patch(Rectangle((left, low), width, height, facecolor="white"))
    reserved = cpu in occupied.reserved
    # A rank on a reserved CPU stays visible in its colour; the hatching says what it trespasses on.
    axes.add_patch(
        Rectangle(
            (left, low), width, height, fill=False, edgecolor=RESERVED if reserved else "#888888",
            linewidth=0.4, hatch="////" if reserved else None,
        )
    )  # fmt: skip
    if reserved and not ranks:
        return
    text = f"CPU {cpu}" if small else str(cpu)
    if ranks and small:
        text += f": rank {' and '.join(map(str, ranks))}"
    _words(axes, left + width / 2, low + height / 2, text, small)


def _around(label: str, inner: Sequence[Box], colour: str, *, foot: str = "") -> Box:
    """A box around others, with its label above them, and a line of text below."""
    content = _row(inner)
    foot_height = LINE + GAP if foot else 0.0
    width = content.width + 2 * GAP
    height = content.height + LINE + 2 * GAP + foot_height

    def paint(axes: Axes, left: float, low: float) -> None:
        _rectangle(axes, left, low, width, height, colour, 0.7)
        content.paint(axes, left + GAP, low + GAP + foot_height)
        axes.text(left + GAP, low + height - LINE / 2 - 0.08, label, fontsize=7, va="center")
        if foot:
            _rectangle(axes, left + GAP, low + GAP, content.width, LINE, "#d7ecc8", 0.7)
            _words(axes, left + width / 2, low + GAP + LINE / 2, foot, True)

    return Box(width, height, paint)


def _row(boxes: Sequence[Box], columns: int | None = None) -> Box:
    """Boxes of about one size in rows, as near to a square as their number allows."""
    columns = columns or math.ceil(math.sqrt(len(boxes)))
    rows = math.ceil(len(boxes) / columns)
    width, height = max(box.width for box in boxes), max(box.height for box in boxes)
    gap = GAP / 2

    def paint(axes: Axes, left: float, low: float) -> None:
        for number, box in enumerate(boxes):
            row, column = divmod(number, columns)
            base = low + (rows - 1 - row) * (height + gap) + height - box.height
            box.paint(axes, left + column * (width + gap), base)

    return Box(columns * (width + gap) - gap, rows * (height + gap) - gap, paint)


def _cache(machine: Topology, core: Core, level: int, kind: str = "Unified") -> Cache | None:
    for cache in machine.caches:
        if (cache.level, cache.kind) == (level, kind) and core.cpus[0] in cache.cpus:
            return cache
    return None


def _rectangle(
    axes: Axes, left: float, low: float, width: float, height: float, colour: str, line: float
) -> None:
    axes.add_patch(
        Rectangle((left, low), width, height, facecolor=colour, edgecolor="black", linewidth=line)
    )


def _words(axes: Axes, x: float, y: float, text: str, small: bool) -> None:
    axes.text(x, y, text, ha="center", va="center", fontsize=7.5 if small else 5.5)
