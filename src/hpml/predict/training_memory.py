"""What a training step with Adam in float32 takes for each parameter, beside what was measured.

4 bytes for the parameter, 4 for its gradient, 8 for Adam's two moments (Rajbhandari et al. 2020,
ZeRO, section 3.1, counts the same for mixed precision). Activations go by the batch.
"""

from collections.abc import Mapping, Sequence

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


def foretold(taken: Sequence[Taken], memory: float) -> int:
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


def grows_with_the_batch(measured: Mapping[str, Sequence[Taken]]) -> tuple[bool, str, str]:
    """For `conclude`: of which network the batch decides, and of which the parameters do."""
    share = {
        name: rows[-1].by_kind["activations"] / rows[-1].peak for name, rows in measured.items()
    }
    seen = ", ".join(f"{part:.0%} of the {name}'s" for name, part in share.items())
    batch = next(iter(measured.values()))[-1].batch
    names = list(share)
    held = share[names[-1]] < 0.1 and all(share[name] > 0.5 for name in names[:-1])
    (_, each), (_, of_last) = line(measured[names[0]]), line(measured[names[-1]])
    return (
        held,
        f"**Answer.** With a batch of {batch}, activations are {seen} peak. One image more takes "
        f"{each / 1e6:.2f} MB in the {names[0]}, which keeps what its layers put out at each place "
        f"of the image, and {of_last / 1e6:.2f} MB in the {names[-1]}, whose layers put out one "
        "number for thousands of weights.",
        f"with a batch of {batch}, activations were {seen} peak.",
    )


def where_it_peaks(measured: Mapping[str, Sequence[Taken]]) -> tuple[bool, str, str]:
    """For `conclude`: the last network needs most in the optimizer's step, the others before it."""
    *others, last = measured
    at_peak = measured[last][-1].by_kind
    return (
        at_peak["activations"] < 1e6 < at_peak["other"]
        and all(measured[name][-1].whole_forward for name in others),
        f"When the {last} needs most, its activations are gone: that is in the optimizer's step, "
        f"where Adam works with {at_peak['other'] / 1e6:.0f} MB of other tensors. The other two "
        "need most while their activations are there, between `forward` and `backward`.",
        f"at the {last}'s peak there were {at_peak['activations'] / 1e6:.1f} MB of activations.",
    )


def as_foretold(
    taken: Sequence[Taken], memory: float, fit: Mapping[int, bool]
) -> tuple[bool, str, str]:
    """For `conclude`: whether of these two batches the smaller fitted into `memory` and the larger
    did not, as the line through `taken` has it."""
    fixed, each = line(taken)
    below, above = sorted(fit)
    sizes = " and ".join(str(one.batch) for one in taken)
    tried = " and ".join(f"{n} {'fitted' if held else 'did not'}" for n, held in fit.items())
    return (
        fit[below] and not fit[above],
        f"**Answer.** {fixed / 1e6:.0f} MB + {each / 1e6:.2f} MB × batch, from the batches of "
        f"{sizes}: "
        f"{foretold(taken, memory)} images. Tried with a real limit of {memory / 1e6:.0f} MB: "
        f"{below} images fit, and {above} do not.",
        f"foretold were {foretold(taken, memory)} images; {tried}.",
    )
