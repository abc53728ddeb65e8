"""What ranks held at their peaks, by kind: a bar for each rank."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hpml.ranks.evidence import KINDS, Evidence
from hpml.trace.layout import PALETTE
from hpml.trace.space_time import format_bytes

# In a print without colour, kinds differ by these
HATCHES = ("", "////", "....", "\\\\\\\\", "")
COLOURS = (*PALETTE[: len(KINDS) - 1], "#cccccc")
MB = 1e6


def memory_picture(launches: Mapping[str, Evidence], *, title: str = "") -> Figure:
    """The bytes of tensors at each rank's peak, stacked by kind: a panel per launch, by its name.

    All panels have one axis, in MB (10^6 bytes). A black line is the peak that the kernel counted
    (`RankEvidence.peak_bytes`), where it did: with memory that is in no tensor. Ranks must have
    been launched with `live=True`, in a cell `--live-tensors` or `--memory`.

    Raises ValueError where a rank's tensors were not counted.
    """
    for name, evidence in launches.items():
        if any(rank.live is None for rank in evidence.ranks):
            raise ValueError(f"{name}: its tensors were not counted: launch with live=True")
    rows = [evidence.world_size for evidence in launches.values()]
    figure = Figure(figsize=(9, 0.9 + sum(0.45 + 0.34 * row for row in rows)), layout="constrained")
    panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False, height_ratios=rows)[:, 0]
    every = [rank for evidence in launches.values() for rank in evidence.ranks]
    longest = max(*(max(rank.live.peak, rank.peak_bytes or 0) / MB for rank in every), 1.0)
    counted = any(rank.peak_bytes is not None for rank in every)
    for axes, (name, evidence) in zip(panels, launches.items(), strict=True):
        for rank in evidence.ranks:
            left = 0.0
            for kind, colour, hatch in zip(KINDS, COLOURS, HATCHES, strict=True):
                width = rank.live.at_peak[kind] / MB
                style = {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
                axes.barh(rank.rank, width, left=left, height=0.7, **style)
                left += width
            axes.annotate(
                format_bytes(rank.live.peak),
                (max(left, (rank.peak_bytes or 0) / MB), rank.rank),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize="small",
            )
            if rank.peak_bytes is not None:
                axes.vlines(rank.peak_bytes / MB, rank.rank - 0.4, rank.rank + 0.4, colors="black")
        axes.set_yticks(range(evidence.world_size))
        axes.set_yticklabels([f"rank {rank}" for rank in range(evidence.world_size)])
        axes.set_ylim(evidence.world_size - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(name, loc="left", fontsize=9)
    panels[0].set_xlim(0, 1.15 * longest)
    panels[-1].set_xlabel("tensors at the rank's peak (MB)")
    figure.suptitle(title, x=0.01, ha="left")
    handles = [
        panels[0].barh([0], [0], color=colour, hatch=hatch, edgecolor="white", label=kind)
        for kind, colour, hatch in zip(KINDS, COLOURS, HATCHES, strict=True)
    ]
    if counted:
        handles.append(Line2D([], [], color="black", label="all memory, by the kernel"))
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize="small")
    return figure
