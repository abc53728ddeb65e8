"""One claim of a verdict in full, in words."""

import pytest

from hpml.checks.render import WIDTH
from hpml.checks.source_lines import in_the_cell
from hpml.checks.verdict import ClaimResult, Verdict
from hpml.cli.claim_in_full import claim_in_full
from hpml.errors import UserError

SEEN = "rank 1 has 3 (line 2 of your answer)"
CLAIMS = (
    ClaimResult("sums are right", False, 4, SEEN, "Who adds?", world_size=2, expected="4"),
    ClaimResult("means are right", False, 3, SEEN, "Who adds?", world_size=2, expected="4"),
    ClaimResult("it ends", True, 2),
    ClaimResult("all is sent", False, 1, "not judged until it ends", reached=False),
)
VERDICT = Verdict("ddp", "DDP", "failed", CLAIMS, "", 7, lines=((2, "return total"),))


def test_a_claim_has_its_message_its_line_and_its_hint_though_one_above_has_them():
    assert claim_in_full(VERDICT, 2, in_the_cell) == (
        "Claim 2 of 4 fails, 0 of 3 points:\n  means are right\n\n"
        f"  with 2 ranks: {SEEN}, expected 4\n    line 2 | return total\n\n  hint: Who adds?"
    )


def test_one_that_holds_or_was_not_judged_is_as_short_as_that():
    assert claim_in_full(VERDICT, 3, in_the_cell) == "Claim 3 of 4 holds, 2 of 2 points:\n  it ends"
    last = claim_in_full(VERDICT, 4, in_the_cell)
    assert last.startswith("Claim 4 of 4 was not judged, 0 of 1 points:\n  all is sent\n\n")
    assert last.endswith("  not judged until it ends")


def test_long_texts_are_wrapped_and_control_characters_go():
    long = ClaimResult("it ends", False, 1, "far " * 60 + "\x1b[2Jaway", "Look. " * 40)
    text = claim_in_full(Verdict("ddp", "", "failed", (long,), "", 7), 1, in_the_cell)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\x1b" not in text


@pytest.mark.parametrize("number", [0, 5])
def test_a_claim_that_is_not_there_is_named(number):
    with pytest.raises(UserError, match=f"^ddp has no claim {number}: press 1 to 4$"):
        claim_in_full(VERDICT, number, in_the_cell)
