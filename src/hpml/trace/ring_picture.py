"""Who holds what after each step of an all-reduce, as a picture: drawn from evidence."""

import textwrap
from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from hpml.ranks.evidence import Evidence
from hpml.trace.holdings import Content, Holdings, Sent, holdings
from hpml.trace.layout import PALETTE, tint

IN_A_ROW = 7  # states of one band: seven are the ring's on four ranks
ACROSS, DOWN = 1.75, 1.28  # from one rank's square to the next, whose side is 1
READ = "A row is a part, its numbers the ranks whose values are in it; a thick frame: all of them."
ALSO = {
    "×": "×2: in it twice.",
    "÷": "÷4: a quarter of them.",
    "p": "p2: of part 2, in the wrong place.",
    "?": "?: other numbers.",
}
DARK = (PALETTE[5], PALETTE[6], PALETTE[2], PALETTE[3])  # of arrows


def who_holds_what(evidence: Evidence, *, title: str = "") -> Figure:
    """All steps of an all-reduce, side by side, from the evidence of `hpml.trace.holdings.watch`.

    A square is one rank's tensor: a row for each part, and in it a field for each rank, filled and
    with that rank's number where its values are in the part. A row with a thick frame is the whole
    sum. Arrows are messages, from the parts that are sent to where they arrive; a dashed one with a
    cross never arrived. "×2": those values are in it twice; "÷4": a quarter of them. "p2": they are
    of part 2, and so in the wrong place. "?": other numbers, of memory that nobody wrote to, say.

    Without a `title`, it is what the last step shows. Raises ValueError as `holdings` does.
    """
    seen = holdings(evidence)
    return draw(seen, range(len(seen.states)), title=title or summary(seen))


def message(evidence: Evidence) -> str:
    """The picture's message in a sentence, for readers who cannot see it."""
    return summary(holdings(evidence))


def summary(seen: Holdings) -> str:
    """What the steps came to, in a sentence."""
    size, count = seen.world_size, len(seen.steps)
    after = f"After {count} step{'s' * (count != 1)}"
    if seen.stuck:
        moved = sum(sent.arrived for step in seen.steps for sent in step)
        return f"{len(seen.stuck)} of {size} ranks stop after {moved} messages have arrived"
    whole = sum(
        is_whole(content, part, size)
        for parts in seen.states[-1]
        for part, content in enumerate(parts)
    )
    if whole < size * size:
        return f"{after} {whole} of {size} × {size} parts are the whole sum"
    if not count:
        return "No message from rank to rank, and yet every rank has the whole sum"
    sent = [
        sum(len(one.parts) for step in seen.steps for one in step if one.sender == rank)
        for rank in range(size)
    ]
    parts = f"{min(sent)} to {max(sent)}" if min(sent) < max(sent) else f"{max(sent)}"
    return f"{after} every rank has the whole sum; a rank sent {parts} parts of n/{size} bytes"


def is_whole(content: Content | None, part: int, world_size: int) -> bool:
    """Whether this is the sum of that part over all ranks."""
    return content == {(rank, part): 1.0 for rank in range(world_size)}


def draw(seen: Holdings, states: Sequence[int], *, title: str = "") -> Figure:
    """The chosen states, neighbours of each other, and the messages between them."""
    bands = [states[k : k + IN_A_ROW] for k in range(0, max(len(states) - 1, 1), IN_A_ROW - 1)]
    size, widest = seen.world_size, max(map(len, bands))
    inch = min(0.72, 9 / (ACROSS * widest + 0.6))
    band_height = size * DOWN + 0.7
    height = (len(bands) * band_height) * inch + 0.35 + 0.16 * len(seen.stuck)
    width = max((ACROSS * widest + 0.6) * inch, 5.5)
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(len(bands), 1, squeeze=False)[:, 0]
    for axes, band in zip(panels, bands, strict=True):
        axes.set(xlim=(-1.1, ACROSS * (widest - 1) + 1.1), ylim=(size * DOWN + 0.05, -0.55))
        axes.set_aspect("equal")
        axes.axis("off")
        for place, state in enumerate(band):
            _column(axes, seen, place, state)
        for place, (state, _) in enumerate(pairwise(band)):
            for sent in seen.steps[state] if seen.steps else ():
                _arrow(axes, sent, place, size)
    lines = textwrap.fill(title, int(11.5 * width))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=10)
    read = textwrap.fill(_caption(seen, states), int(14.5 * width))
    below = "\n".join((read, *seen.stuck))
    figure.supxlabel(below, x=0.01, ha="left", fontsize=8)
    return figure


def _column(axes: Axes, seen: Holdings, place: int, state: int) -> None:
    name = f"after step {state}" if state else "start"
    if state == len(seen.states) - 1:
        name = "stopped" if seen.stuck else name if seen.steps else "end"
    axes.text(place * ACROSS + 0.5, -0.25, name, ha="center", va="center", fontsize=9)
    for rank, parts in enumerate(seen.states[state]):
        if place == 0:
            at = {"ha": "right", "va": "center", "fontsize": 9}
            axes.text(-0.15, rank * DOWN + 0.5, f"rank {rank}", **at)
        _square(axes, parts, place * ACROSS, rank * DOWN, seen.world_size)


def _square(
    axes: Axes, parts: Sequence[Content | None], left: float, top: float, size: int
) -> None:
    side = 1 / size
    for part, content in enumerate(parts):
        y = top + part * side
        if content is None:
            axes.add_patch(Rectangle((left, y), 1, side, facecolor="white", hatch="xxxx", lw=0.6))
            _label(axes, "?", left + 0.5, y + side / 2)
            continue
        for rank in range(size):
            words = field(content, rank, part)
            look = {"facecolor": tint(rank) if words else "white", "edgecolor": "#888888"}
            look |= {"linewidth": 0.4, "hatch": "///" if words.startswith("p") else ""}
            x = left + rank * side
            axes.add_patch(Rectangle((x, y), side, side, **look))
            _label(axes, words, x + side / 2, y + side / 2, bold=words != str(rank))
        if is_whole(content, part, size):
            axes.add_patch(Rectangle((left, y), 1, side, fill=False, linewidth=1.8, zorder=3))
    axes.add_patch(Rectangle((left, top), 1, 1, fill=False, linewidth=0.9, zorder=2))


def field(content: Content, rank: int, part: int) -> str:
    """What stands in the field of a rank in the row of a part; "" where nothing of the rank is."""
    if strange := sorted(p for r, p in content if r == rank and p != part):
        return ",".join(f"p{p}" for p in strange)
    times = content.get((rank, part), 0.0)
    if times in (0.0, 1.0):
        return str(rank) if times else ""
    return f"÷{round(1 / times)}" if (1 / times).is_integer() else f"×{times:.2g}"


def _caption(seen: Holdings, states: Sequence[int]) -> str:
    """How to read the picture, with no word about marks that it does not have."""
    signs = (
        {"?"} if any(None in parts for state in states for parts in seen.states[state]) else set()
    )
    for state in states:
        for parts in seen.states[state]:
            for part, content in enumerate(parts):
                signs |= {field(content or {}, r, part)[:1] for r in range(seen.world_size)}
    return " ".join([READ, *(words for sign, words in ALSO.items() if sign in signs)])


def _label(axes: Axes, words: str, x: float, y: float, bold: bool = False) -> None:
    look = {"ha": "center", "va": "center", "fontsize": 6.5, "zorder": 4}
    axes.text(x, y, words, fontweight="bold" if bold else "normal", **look)


def _arrow(axes: Axes, sent: Sent, place: int, size: int) -> None:
    parts = sent.parts or range(size)
    height = (min(parts) + max(parts) + 1) / 2 / size
    begin = (place * ACROSS + 1.02, sent.sender * DOWN + height)
    end = ((place + 1) * ACROSS - 0.02, sent.receiver * DOWN + height)
    if not sent.arrived:
        end = tuple(b + 0.55 * (e - b) for b, e in zip(begin, end, strict=True))
        axes.plot(*end, "x", color="black", markersize=6, zorder=6)
    axes.add_patch(
        FancyArrowPatch(
            begin,
            end,
            arrowstyle="-|>" if sent.arrived else "-",
            linestyle="-" if sent.arrived else "--",
            linewidth=0.8 + 0.4 * len(parts),
            color=DARK[sent.sender % len(DARK)],
            mutation_scale=8,
            shrinkA=0,
            shrinkB=0,
            zorder=5,
        )
    )
