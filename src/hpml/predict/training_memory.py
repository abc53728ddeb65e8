"""What a training step with Adam in float32 takes for each parameter, beside what was measured.

4 bytes for the parameter, 4 for its gradient, 8 for Adam's two moments (Rajbhandari et al. 2020,
ZeRO, section 3.1, counts the same for mixed precision). Activations grow with the batch.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hpml.measure.training_memory import Taken
from hpml.trace.launch_timeline import HATCHES
from hpml.trace.layout import PALETTE

ADAM = {"parameters": 4, "gradients": 4, "optimizer states": 8}  # bytes for each parameter


def beside_formula(measured: Sequence[Mapping[str, int]], parameters: int) -> str:
    """A table in MB: for each kind of tensors the formula, for a rank with so many parameters, and
    the most bytes that each rank had, as `RankEvidence.live.highest` has them."""
    ranks = "".join(f"{f'rank {rank}':>9}" for rank in range(len(measured)))
    lines = [f"{'most MB at one time':22}{'formula':>9}{ranks}"]
    for kind in (*ADAM, "activations"):
        formula = f"{ADAM[kind] * parameters / 1e6:.1f}" if kind in ADAM else "–"
        counted = "".join(f"{by_kind[kind] / 1e6:9.1f}" for by_kind in measured)
        lines.append(f"{kind:22}{formula:>9}{counted}")
    return "\n".join(lines)


def line(taken: Sequence[Taken]) -> tuple[float, float]:
    """Bytes that every batch takes, and bytes for each sample: the line through the peaks of the
    smallest and the largest batch. Raises ValueError where there is only one."""
    ends = sorted(taken, key=lambda one: one.batch)
    less, more = ends[0], ends[-1]
    if less.batch == more.batch:
        raise ValueError("a line needs two batches")
    each = (more.peak - less.peak) / (more.batch - less.batch)
    return less.peak - each * less.batch, each


def predicted(taken: Sequence[Taken], memory: float) -> int:
    """The largest batch whose peak, on that line, is within `memory` bytes; 0 where none is."""
    fixed, each = line(taken)
    return max(0, int((memory - fixed) / each))


def bars(measured: Mapping[str, Sequence[Taken]], *, title: str = "") -> Figure:
    """A panel for each network: a bar for each batch, of the bytes at its peak by kind, in MB.

    A dashed line is at 16 bytes for each parameter: what Adam takes in float32, whatever the batch.
    """
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, len(measured), sharey=True, squeeze=False)[0]
    kinds = list(next(iter(measured.values()))[0].by_kind)
    for axes, (name, rows) in zip(panels, measured.items(), strict=True):
        for place, one in enumerate(rows):
            below = 0.0
            for number, kind in enumerate(kinds):
                look = {"color": PALETTE[number], "hatch": HATCHES[number], "edgecolor": "black"}
                high = one.by_kind[kind] / 1e6
                axes.bar(place, high, bottom=below, width=0.7, linewidth=0.6, **look)
                below += high
        per_parameter = sum(ADAM.values()) * rows[0].parameters / 1e6
        axes.axhline(per_parameter, color="black", linestyle="--", linewidth=1.4)
        axes.set_xticks(range(len(rows)), [str(one.batch) for one in rows])
        axes.set_title(f"{name}: {rows[0].parameters / 1e6:.1f} M parameters", fontsize=9)
        axes.set_xlabel("batch (images)")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("peak memory (MB)")
    handles: list[Artist] = [
        Patch(facecolor=PALETTE[n], hatch=HATCHES[n], edgecolor="black", label=kind)
        for n, kind in enumerate(kinds)
    ]
    handles.append(Line2D([], [], color="black", linestyle="--", label="16 bytes × parameters"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


class Activations(NamedTuple):
    """By network, the share of its peak that activations have with the largest batch, and the bytes
    that one more sample takes. `held`: they are little of the last network's peak, and more than
    half of each other's."""

    held: bool
    share: dict[str, float]
    each: dict[str, float]


def activations(measured: Mapping[str, Sequence[Taken]]) -> Activations:
    """Of which networks the batch decides, and of which the parameters do."""
    share = {
        name: rows[-1].by_kind["activations"] / rows[-1].peak for name, rows in measured.items()
    }
    *others, last = share.values()
    each = {name: line(rows)[1] for name, rows in measured.items()}
    return Activations(last < 0.1 and all(part > 0.5 for part in others), share, each)


def last_peaks_in_the_update(measured: Mapping[str, Sequence[Taken]]) -> bool:
    """Whether the last network needs most in the optimizer's step, and the others before it."""
    *others, last = (rows[-1] for rows in measured.values())
    in_update = last.by_kind["activations"] < 1e6 < last.by_kind["other"]
    return in_update and all(one.whole_forward for one in others)
