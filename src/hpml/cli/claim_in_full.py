"""One claim of a verdict by itself, in words."""

import textwrap

from hpml.checks.render import WIDTH, explained
from hpml.checks.source_lines import Place, quotes
from hpml.checks.verdict import Verdict
from hpml.errors import UserError
from hpml.files.sanitize import plain, short


def claim_in_full(verdict: Verdict, number: int, place: Place) -> str:
    """Claim `number`, the first being 1: what was seen and what helps.

    A verdict shows a message and a hint once, at the first of the claims that share them; here they
    stand with each. Lines of the answer are quoted under their `place`. UserError if the verdict
    has no such claim.
    """
    of = len(verdict.claims)
    if not 1 <= number <= of:
        raise UserError(f"{verdict.exercise} has no claim {number}: press 1 to {of}")
    ((claim, message, hint),) = explained(
        [verdict.claims[number - 1]], verdict.cause, expected=True
    )

    def wrapped(text: str) -> list[str]:
        return textwrap.wrap(plain(text), WIDTH, initial_indent="  ", subsequent_indent="  ")

    lines = [
        f"Claim {number} of {of} {_STATES[claim.state]}, {claim.earned} of {claim.points} points:",
        *wrapped(claim.name),
    ]
    if message:
        lines += ["", *wrapped(message)]
        found = quotes(message, verdict.lines, place)
        lines += ["    " + short(line, WIDTH - 4) for line in found]
    if hint:
        lines += ["", *wrapped(f"hint: {hint}")]
    return "\n".join(lines)


_STATES = {
    "holds": "holds",
    "fails": "fails",
    "not reached": "was not judged",
    "not gradable": "cannot be judged here",
}
