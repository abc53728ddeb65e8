"""A picture of one launch for a verdict, as SVG made without a plotting library: that is many times
faster, a learner waits for it, and a class has hundreds of them.

A row per rank, pale while a call is in flight, full while its rank waits for it, dashed where it
never returned; calls in flight at one time lie in lanes below each other. The call that makes the
process group is left out. The call that the launch failed in has a red edge and a cross. What a
rank reported is not trusted: times outside the launch are moved to its edge, names are escaped and
cut. `hpml.trace.launch_timeline.timeline` shows the same drawing in a lecture.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from html import escape

from hpml.files.sanitize import one_line
from hpml.ranks.evidence import Call, Evidence, Mark, RankEvidence
from hpml.trace.failing_call import failing_calls
from hpml.trace.layout import IN_FLIGHT, PALETTE, drawn_calls, lanes

CALLS = 200  # drawn at most: the last ones, which show how it ended
RANKS = 16
LANES = 12  # of one rank, beneath each other
MARKS = 8  # of one rank

WIDTH, LEFT, RIGHT = 760, 62, 176  # px; the lanes lie between LEFT and WIDTH - RIGHT
ROW, GAP = 30, 8
SHORTEST = 1.4  # px, so that a bar is visible
STUCK = 0.55  # opacity of a wait that never ends
LETTER = 5.9  # px, approximate width in the small text

Place = Callable[[float], float]  # from a time to px

_STYLE = """<style>
text{font:12px system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif;fill:#21252a}
.s{font-size:11px;fill:#565c64}.e{text-anchor:end}.m{text-anchor:middle}
.lane{fill:#8a8f96;fill-opacity:.12}.cause{fill:#c2371f;fill-opacity:.16}
.bad{fill:#a12c1b;font-weight:600}.tick{stroke:#8a8f96;stroke-opacity:.35}
.failed{fill:none;stroke:#c2371f;stroke-width:1.5}
.mark{stroke:#21252a;stroke-dasharray:1.5 2}
@media (prefers-color-scheme:dark){text{fill:#e4e2dc}.s{fill:#a9adb3}.bad{fill:#ff9f8e}
.failed{stroke:#ff9f8e}.mark{stroke:#e4e2dc}}
</style>"""
# In a notebook: its own colour of text, whatever the theme. A style there is the whole page's, so
# each rule is for the drawings alone.
_STYLE_INSIDE = """<style>
.hpml-calls{max-width:100%;height:auto;display:block;margin:.3rem 0}
.hpml-calls text{font:12px var(--jp-ui-font-family,system-ui,sans-serif);fill:currentColor}
.hpml-calls .s{font-size:11px}.hpml-calls .e{text-anchor:end}.hpml-calls .m{text-anchor:middle}
.hpml-calls .lane{fill:currentColor;fill-opacity:.07}
.hpml-calls .cause{fill:#d1495b;fill-opacity:.2}
.hpml-calls .bad{font-weight:700}.hpml-calls .tick{stroke:currentColor;stroke-opacity:.25}
.hpml-calls .failed{fill:none;stroke:#d1495b;stroke-width:2}
.hpml-calls .mark{stroke:currentColor;stroke-dasharray:1.5 2}
</style>"""


def launch_svg(
    evidence: Evidence, title: str, *, inside: bool = False, lines: Collection[int] = ()
) -> str:
    """What each rank did, and when, with the call that failed. At most some 60 kB.

    A file of its own, with light and dark colours; or `inside` a page, whose colour it takes.
    `lines` as `failing_calls` has them.
    """
    ranks, left_out = _drawable(evidence)
    start, end = _span(ranks, evidence)
    unit, scale = ("ms", 1e3) if end - start < 2 else ("s", 1.0)
    per_second = (WIDTH - RIGHT - LEFT) / (end - start)

    def x(moment: float) -> float:
        return min(max(LEFT + (moment - start) * per_second, LEFT), WIDTH - RIGHT)

    operations = list(dict.fromkeys(call.operation for rank in ranks for call in rank.calls))
    causes = evidence.diagnosis.ranks if evidence.diagnosis else ()
    failing = failing_calls(evidence, lines)
    head = 26 if operations else 4
    top = head + (26 if any(rank.marks for rank in ranks) else 0)
    bottom = top + len(ranks) * (ROW + GAP)
    height = bottom + 18 + (18 if left_out else 0)
    parts = _legend(operations)
    parts += _axis(start, end, x, scale, unit, top, bottom)
    for number, rank in enumerate(ranks):
        y = top + number * (ROW + GAP)
        parts += _row(rank, y, rank.rank in causes)
        failed = {index for of, index in failing if of == rank.rank}
        parts += _bars(rank.calls, operations, y, x, failed)
        parts += _marks(rank.marks, y, x, named=number == 0)
    if not operations:
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(_words(middle, top + ROW / 2 + 4, "no collective was called", "s m"))
    if left_out:
        parts.append(_words(LEFT, height - 5, left_out, "s"))
    look = ' class="hpml-calls"' if inside else ""
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img"{look}>'
    )
    named = f"<title>{escape(one_line(title))}</title>"
    return "".join([opening, named, _STYLE_INSIDE if inside else _STYLE, *parts, "</svg>"])


def _drawable(evidence: Evidence) -> tuple[list[RankEvidence], str]:
    """The ranks with the calls and marks to draw, by time, and a note on what is left out."""
    latest = max(evidence.seconds, *(rank.seconds for rank in evidence.ranks), 1e-6)
    ranks = evidence.ranks[:RANKS]
    made = [
        (_moment(call.issued, latest), place, call)
        for place, rank in enumerate(ranks)
        for call in drawn_calls(rank)
    ]
    drawn = sorted(made, key=lambda each: each[0])[-CALLS:]
    since = drawn[0][0] if len(made) > CALLS else 0.0
    kept = []
    for place, rank in enumerate(ranks):
        calls = tuple(_tame(call, latest) for _, of, call in drawn if of == place)
        marks = (Mark(mark.name, _moment(mark.at, latest)) for mark in rank.marks[:MARKS])
        kept.append(replace(rank, calls=calls, marks=tuple(m for m in marks if m.at >= since)))
    left_out = []
    if len(made) > CALLS:
        left_out.append(f"the last {CALLS} of {len(made)} calls are drawn")
    if len(evidence.ranks) > RANKS:
        left_out.append(f"the first {RANKS} of {len(evidence.ranks)} ranks are drawn")
    return kept, ", ".join(left_out)


def _tame(call: Call, latest: float) -> Call:
    """The call with its times clamped to the launch and in order."""
    issued = _moment(call.issued, latest)
    waited = None if call.waited is None else max(_moment(call.waited, latest), issued)
    finished = None if call.finished is None else max(_moment(call.finished, latest), issued)
    return replace(call, issued=issued, waited=waited, finished=finished)


def _moment(at: float, latest: float) -> float:
    return min(max(at, 0.0), latest) if math.isfinite(at) else latest


def _span(ranks: Sequence[RankEvidence], evidence: Evidence) -> tuple[float, float]:
    """The first and the last time drawn, with room at the end for calls that never returned."""
    calls = [call for rank in ranks for call in rank.calls]
    moments = [call.issued for call in calls]
    moments += [call.finished for call in calls if call.finished is not None]
    moments += [mark.at for rank in ranks for mark in rank.marks]
    start, end = (min(moments), max(moments)) if moments else (0.0, max(evidence.seconds, 1e-3))
    if any(call.finished is None for call in calls):
        end += 0.35 * max(end - start, 1e-3)
    return start, max(end, start + 1e-5)


def _legend(operations: Sequence[str]) -> list[str]:
    if not operations:
        return []
    parts, x = [], float(LEFT)
    for number, operation in enumerate(operations[: len(PALETTE)]):
        name = one_line(operation, 24)
        parts.append(_rect(x, 4, 12, 12, f'fill="{_colour(number)}"'))
        parts.append(_words(x + 17, 14, name, "s"))
        x += 17 + LETTER * len(name) + 18
        if x > WIDTH - RIGHT - 60:
            break
    note = _words(WIDTH - 4, 14, "pale: in flight · full: rank waits", "s e")
    return [*parts, note] if x < WIDTH - 190 else parts


def _axis(
    start: float, end: float, x: Place, scale: float, unit: str, top: int, bottom: int
) -> list[str]:
    """Ticks at round numbers, counted from the first time drawn."""
    width = (end - start) * scale
    rough = width / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough)
    parts = []
    for number in range(int(width / step) + 1):
        at = x(start + number * step / scale)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom - GAP + 4}" class="tick"/>'
        )
        parts.append(_words(at, bottom + 10, f"{number * step:.6g}", "s m"))
    return [*parts, _words(WIDTH - RIGHT + 10, bottom + 10, f"time ({unit})", "s")]


def _row(rank: RankEvidence, y: float, cause: bool) -> list[str]:
    bad = rank.end not in ("returned", "ended")
    width = WIDTH - RIGHT - LEFT
    return [
        _rect(LEFT, y, width, ROW, f'class="{"cause" if cause else "lane"}" rx="3"'),
        _words(LEFT - 8, y + ROW / 2 + 4, f"rank {rank.rank}", f"e{' bad' if cause else ''}"),
        _words(WIDTH - RIGHT + 10, y + ROW / 2 + 4, _end(rank), "bad s" if bad else "s"),
    ]


def _end(rank: RankEvidence) -> str:
    """How the rank ended, in a few words."""
    stuck = next((call for call in rank.calls if call.finished is None), None)
    if rank.end == "ended":
        where = f", line {stuck.line}" if stuck and stuck.line is not None else ""
        return one_line(f"stuck in {stuck.operation}{where}" if stuck else "still at work", 28)
    return one_line(
        {
            "returned": "returned",
            "raised": f"raised {rank.raised.kind}" if rank.raised else "raised",
            "exited": f"exited with {rank.exit_code}",
            "killed": f"killed by {rank.signal}",
        }[rank.end],
        28,
    )


def _bars(
    calls: Sequence[Call], operations: Sequence[str], y: float, x: Place, failed: Collection[int]
) -> list[str]:
    numbers = [min(number, LANES - 1) for number in lanes(calls)]
    lane = (ROW - 6) / (max(numbers, default=0) + 1)
    height = max(lane - 1, 0.9 * lane)
    parts = []
    for call, number in zip(calls, numbers, strict=True):
        at = y + 3 + number * lane
        left = min(x(call.issued), WIDTH - RIGHT - SHORTEST)
        lost = call.finished is None
        right = WIDTH - RIGHT if lost else max(x(call.finished), left + SHORTEST)
        waits = right if call.waited is None else min(max(x(call.waited), left), right)
        colour = _colour(operations.index(call.operation))
        for begin, stop, alpha in ((left, waits, IN_FLIGHT), (waits, right, STUCK if lost else 1)):
            if stop > begin:
                look = f'fill="{colour}"' + (f' fill-opacity="{alpha}"' if alpha < 1 else "")
                parts.append(_rect(begin, at, stop - begin, height, look))
        if lost and call.index not in failed:
            dashed = f'fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="4 3"'
            parts.append(_rect(left, at, right - left, height, dashed))
        if call.index in failed:
            edge = 'class="failed"' + (' stroke-dasharray="4 3"' if lost else "")
            parts.append(_rect(left, at, right - left, height, edge))
            parts.append(_words(min(left + 3, WIDTH - RIGHT - 9), at + lane / 2 + 4, "✗", "bad"))
    return parts


def _marks(marks: Sequence[Mark], y: float, x: Place, named: bool) -> list[str]:
    parts = []
    free = [-math.inf, -math.inf]  # where each of the two lines of names is free again
    for mark in sorted(marks, key=lambda each: each.at):
        at = x(mark.at)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y - 3}" y2="{y + ROW + 3}" class="mark"/>'
        )
        name = one_line(mark.name, 24)
        half = LETTER * len(name) / 2
        line = next((k for k in (0, 1) if free[k] <= at - half), None)
        if named and line is not None:
            parts.append(_words(max(at, half), y - 5 - 11 * line, name, "s m"))
            free[line] = at + half + 6
    return parts


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _rect(x: float, y: float, width: float, height: float, look: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {look}/>'


def _words(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(one_line(words))}</text>'
