"""What a learner reads first of a verdict that failed: claim, message, line of the answer, hint."""

from dataclasses import dataclass

from hpml.checks.render import explained
from hpml.checks.source_lines import quotes
from hpml.checks.verdict import Verdict
from hpml.files.sanitize import plain


@dataclass(frozen=True)
class FirstFailure:
    """The first failed claim of a verdict, as the learner's own check shows it."""

    claim: str  # "" where no claim was judged: it is not allowed, or ranks did not return
    message: str  # what was seen and expected, with the world size; else why nothing was judged
    line: str  # "line 5 |     dist.barrier()", a row for each line that is named; "" without one
    hint: str


def first_failure(verdict: Verdict) -> FirstFailure | None:
    """The first failed claim of `verdict`; None where none failed."""
    for claim, message, hint in explained(verdict.claims, verdict.cause, expected=True):
        if claim.passed or not claim.judged:
            continue
        judged = verdict.cause == "claims"
        message = message if judged else verdict.headline
        line = "\n".join(quotes(message, verdict.lines))
        return FirstFailure(claim.name if judged else "", plain(message), plain(line), plain(hint))
    return None
