"""Format a verdict: text for a terminal, HTML for a notebook. Both escape everything."""

import textwrap
from collections.abc import Sequence
from html import escape

from hpml.checks.verdict import Cause, ClaimResult, Verdict
from hpml.files.sanitize import plain

WIDTH = 96
_MARKS = {"passed": "✓", "failed": "✗", "not gradable": "?"}


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


def as_text(verdict: Verdict, stacks: bool = False) -> str:
    """The verdict as a compact table for a terminal, at most 96 columns wide, no colour.

    With `stacks`, each rank's stack follows.
    """
    score = f"{verdict.earned} of {verdict.points} points"
    title = f"{_MARKS[verdict.status]} {verdict.exercise}: {verdict.title}"
    lines = [f"{title:<{WIDTH - len(score) - 1}} {score}"]
    if verdict.status != "passed":
        lines += textwrap.wrap(
            plain(verdict.headline), WIDTH - 2, initial_indent="  ", subsequent_indent="  "
        )
    for claim, message, hint in explained(verdict.claims, verdict.cause, expected=True):
        points = f"{claim.earned}/{claim.points}"
        mark = "✓" if claim.passed else "✗" if claim.judged else "?"
        lines.append(f"  {mark} {claim.name:<{WIDTH - 5 - len(points)}} {points}")
        for label, text in (("", message), ("hint: ", hint)):
            if text:
                lines += textwrap.wrap(
                    label + plain(text),
                    WIDTH - 6,
                    initial_indent=" " * 6,
                    subsequent_indent=" " * (6 + len(label)),
                )
    if stacks:
        for rank, text in verdict.stacks.items():
            lines += ["", f"  {rank}:", textwrap.indent(plain(text).rstrip(), "    ")]
    return "\n".join(lines)


_STYLE = """<style scoped>
.hpml-verdict{max-width:52rem;margin:.4rem 0;font-size:13px;line-height:1.45;
 border-left:4px solid var(--hpml-tone);padding:.1rem 0 .1rem .8rem}
.hpml-verdict table{border-collapse:collapse;width:100%;margin:.3rem 0;table-layout:auto}
.hpml-verdict td{padding:.15rem .5rem;text-align:left!important;vertical-align:top;border:0;
 white-space:normal}
.hpml-verdict td.n{text-align:right!important;white-space:nowrap;font-variant-numeric:tabular-nums}
.hpml-verdict .m{color:var(--jp-ui-font-color2,#555)}
.hpml-verdict summary{cursor:pointer}
</style>"""
_TONES = {"passed": "#1a7f37", "failed": "#b35900", "not gradable": "#6e40c9"}


def _tone(claim: ClaimResult) -> str:
    return _TONES["passed" if claim.passed else "failed" if claim.judged else "not gradable"]


def as_html(verdict: Verdict) -> str:
    """The verdict as an HTML table, with any stacks folded."""
    tone = _TONES[verdict.status]
    rows = []
    for claim, message, hint in explained(verdict.claims, verdict.cause, expected=True):
        mark = "✓" if claim.passed else "✗" if claim.judged else "?"
        notes = "".join(
            f'<div class="m">{label}{escape(plain(text))}</div>'
            for label, text in (("", message), ("<b>Hint.</b> ", hint))
            if text
        )
        rows.append(
            f'<tr><td style="color:{_tone(claim)}">{mark}</td>'
            f"<td>{escape(claim.name)}{notes}</td>"
            f'<td class="n">{claim.earned} / {claim.points}</td></tr>'
        )
    headline = ""
    if verdict.status != "passed":
        headline = f"<div>{escape(plain(verdict.headline))}</div>"
    stacks = "".join(
        f"<details><summary>where {escape(rank)} stood</summary>"
        f"<pre>{escape(plain(text))}</pre></details>"
        for rank, text in verdict.stacks.items()
    )
    return (
        f'{_STYLE}<div class="hpml-verdict" style="--hpml-tone:{tone}">'
        f"<div><b>{_MARKS[verdict.status]} {escape(verdict.exercise)}</b> · "
        f"{escape(verdict.title)} · <b>{verdict.earned} of {verdict.points} points</b></div>"
        f"{headline}<table>{''.join(rows)}</table>{stacks}</div>"
    )
