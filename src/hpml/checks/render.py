"""Format a verdict: text for a terminal, HTML for a notebook. Both escape everything."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from html import escape

from hpml.checks.library_frames import folded
from hpml.checks.source_lines import Place, in_the_cell, quotes
from hpml.checks.verdict import Cause, ClaimResult, State, Verdict
from hpml.files.sanitize import plain, short

WIDTH = 96
_MARKS = {"passed": "✓", "failed": "✗", "not gradable": "?"}
_CLAIM_MARKS: Mapping[State, str] = {
    "holds": "✓",
    "fails": "✗",
    "not reached": "–",
    "not gradable": "?",
}


def explained(
    claims: Sequence[ClaimResult], cause: Cause, expected: bool
) -> list[tuple[ClaimResult, str, str]]:
    """Each claim with its message and hint, omitted if equal to the previous claim's.

    A message names the world size at which the claim, if judged by itself, did not hold. With
    `expected` it includes the expected value.
    """
    rows, before = [], ClaimResult("", True, 0)
    for claim in claims:
        same = (claim.message, claim.expected) == (before.message, before.expected)
        message = "" if same else _sentence(claim, cause, expected)
        rows.append((claim, message, claim.hint if claim.hint != before.hint else ""))
        if not claim.passed:
            before = claim
    return rows


def _sentence(claim: ClaimResult, cause: Cause, expected: bool) -> str:
    message, ranks = claim.full_message if expected else claim.message, claim.world_size
    if cause != "claims" or ranks is None or not message:
        return message
    return f"with {ranks} rank{'s' if ranks > 1 else ''}: {message}"


def as_text(verdict: Verdict, stacks: bool = False, place: Place = in_the_cell) -> str:
    """The verdict as a compact table for a terminal, at most 96 columns wide, no colour.

    Below a message that names a line of the answer is that line, under its `place`. At the end
    comes what the ranks printed. With `stacks`, each rank's stack follows, library frames folded.
    """
    score = f"{verdict.earned} of {verdict.points} points"
    title = f"{_MARKS[verdict.status]} {verdict.exercise}: {verdict.title}"
    lines = [f"{title:<{WIDTH - len(score) - 1}} {score}"]

    def add(text: str, indent: int, label: str = "") -> None:
        hanging = " " * (indent + len(label))
        first = " " * indent
        text = label + plain(text)
        lines.extend(textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=hanging))

    def quote(text: str, indent: int) -> None:
        found = quotes(text, verdict.lines, place)
        lines.extend(" " * indent + short(line, WIDTH - indent) for line in found)

    if verdict.status != "passed":
        add(verdict.headline, 2)
        quote(verdict.headline, 4)
    if verdict.case:
        add(f"the case: {_case(verdict)}", 2)
    if verdict.calls:
        lines.append(f"  the calls{_with_ranks(verdict)}, in order:")
        lines.extend("    " + short(plain(row), WIDTH - 4) for row in verdict.calls.split("\n"))
    for claim, message, hint in explained(verdict.claims, verdict.cause, expected=True):
        points = f"{claim.earned}/{claim.points}"
        lines.append(
            f"  {_CLAIM_MARKS[claim.state]} {claim.name:<{WIDTH - 5 - len(points)}} {points}"
        )
        if message:
            add(message, 6)
            quote(message, 8)
        if hint:
            add(hint, 6, "hint: ")
    if verdict.printed:
        lines.append(f"  printed{_with_ranks(verdict)}:")
        rows = plain(verdict.printed).split("\n")
        lines.extend("    " + short(row.expandtabs(), WIDTH - 4) for row in rows)
    if stacks:
        for rank, text in verdict.stacks.items():
            stack = textwrap.indent(plain(folded(text)).rstrip(), "    ")
            lines += ["", f"  {rank}:", stack]
    return "\n".join(lines)


def _case(verdict: Verdict) -> str:
    return f"{verdict.case},{_with_ranks(verdict)}" if verdict.shown_at else verdict.case


def _with_ranks(verdict: Verdict) -> str:
    ranks = verdict.shown_at
    return f" with {ranks} rank{'s' if ranks > 1 else ''}" if ranks else ""


# Colours by theme: JupyterLab sets the variables, other pages have the light ones. What must be
# read has a contrast of 7:1 and more on the theme's background, marks 4.5:1.
_STYLE = """<style>
.hpml-verdict{max-width:52rem;margin:.4rem 0;font-size:13px;line-height:1.45;
 --hpml-passed:#1a7f37;--hpml-failed:#b35900;--hpml-open:#6e40c9;
 border-left:4px solid var(--hpml-tone);padding:.1rem 0 .1rem .8rem}
[data-jp-theme-light="false"] .hpml-verdict{--hpml-passed:#56d364;--hpml-failed:#f0883e;
 --hpml-open:#bc8cff}
.hpml-verdict table{border-collapse:collapse;width:100%;margin:.3rem 0;table-layout:auto}
.hpml-verdict td{padding:.15rem .5rem;text-align:left!important;vertical-align:top;border:0;
 white-space:normal}
.hpml-verdict td.n{text-align:right!important;white-space:nowrap;font-variant-numeric:tabular-nums}
.hpml-verdict .m{margin-top:.1rem}
.hpml-verdict pre{margin:.2rem 0;padding:.25rem .5rem;overflow-x:auto;
 font:12px/1.4 var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace);
 background:rgba(128,128,128,.12);color:inherit}
.hpml-verdict pre.p{max-height:24rem;overflow-y:auto}
.hpml-verdict summary{cursor:pointer}
</style>"""
_TONES = {
    "passed": "var(--hpml-passed)",
    "failed": "var(--hpml-failed)",
    "not gradable": "var(--hpml-open)",
}
# Apart: a pass, which solutions show, is the same text as before there was such a claim
_LATER = """<style>
.hpml-verdict{--hpml-later:#57606a}
[data-jp-theme-light="false"] .hpml-verdict{--hpml-later:#9198a1}
</style>"""
_CLAIM_TONES: Mapping[State, str] = {
    "holds": _TONES["passed"],
    "fails": _TONES["failed"],
    "not reached": "var(--hpml-later)",
    "not gradable": _TONES["not gradable"],
}


def as_html(verdict: Verdict, notes: Sequence[str] = ()) -> str:
    """The verdict as an HTML table; stacks and what ranks printed are folded.

    `notes` are sentences below its headline.
    """
    rows = []
    for claim, message, hint in explained(verdict.claims, verdict.cause, expected=True):
        more = ""
        if message:
            more += f'<div class="m">{_with_code(message)}</div>{_quoted(message, verdict)}'
        if hint:
            more += f'<div class="m"><b>Hint.</b> {_with_code(hint)}</div>'
        rows.append(
            f'<tr><td style="color:{_CLAIM_TONES[claim.state]}">{_CLAIM_MARKS[claim.state]}</td>'
            f"<td>{_with_code(claim.name)}{more}</td>"
            f'<td class="n">{claim.earned} / {claim.points}</td></tr>'
        )
    above = ""
    if verdict.status != "passed":
        above = f"<div>{_with_code(verdict.headline)}</div>{_quoted(verdict.headline, verdict)}"
    if verdict.case:
        above += f"<div>The case: {_safe(_case(verdict))}.</div>"
    above += "".join(f"<div>{_with_code(note)}</div>" for note in notes)
    below = ""
    if verdict.printed:
        below += _folded(f"what the answer printed{_with_ranks(verdict)}", verdict.printed, "p")
    for rank, text in verdict.stacks.items():
        below += _folded(f"where {rank} stood", folded(text))
    later = _LATER if any(claim.state == "not reached" for claim in verdict.claims) else ""
    # The timeline is a drawing of ours, and every word in it is escaped.
    return (
        f'{_STYLE}{later}<div class="hpml-verdict" style="--hpml-tone:{_TONES[verdict.status]}">'
        f"<div><b>{_MARKS[verdict.status]} {escape(verdict.exercise)}</b> · "
        f"{escape(verdict.title)} · <b>{verdict.earned} of {verdict.points} points</b></div>"
        f"{above}{verdict.timeline}<table>{''.join(rows)}</table>{below}</div>"
    )


def _safe(text: str) -> str:
    return escape(plain(text))


def _with_code(text: str) -> str:
    """Markdown's `code` as HTML's; all else as it is written."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _safe(text))


def _quoted(text: str, verdict: Verdict) -> str:
    lines = quotes(text, verdict.lines)
    return f"<pre>{_safe(chr(10).join(lines))}</pre>" if lines else ""


def _folded(summary: str, text: str, kind: str = "s") -> str:
    shown = f'<pre class="{kind}">{_safe(text)}</pre>'
    return f"<details><summary>{_safe(summary)}</summary>{shown}</details>"
