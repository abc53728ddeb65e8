"""Verdicts as people read them: compact, and deaf to whatever an answer put into a message."""

import dataclasses
import re

from hpml.checks.render import WIDTH, as_html, as_text
from hpml.checks.verdict import ClaimResult, Verdict

HOSTILE = "<script>alert(1)</script>\x1b[2J\x1b]0;title\x07&amp;"
FAILED = Verdict(
    exercise="ddp",
    title="Data parallel by hand",
    status="failed",
    claims=(
        ClaimResult("ranks start alike", True, 3),
        ClaimResult(
            "gradients are means", False, 5, "off by " + "9" * 200, "Sum or mean?", "sum", 2
        ),
        ClaimResult("few messages", False, 2, "off by " + "9" * 200, "Sum or mean?", "sum", 2),
    ),
    headline="1 of 3 claims hold",
    seed=1,
    stacks={"rank 1 of 2": HOSTILE},
)


def test_text_has_points_claims_messages_and_each_hint_once():
    text = as_text(FAILED)
    assert "✗ ddp: Data parallel by hand" in text
    assert "3 of 10 points" in text
    assert re.search(r"✓ ranks start alike +3/3", text)
    assert re.search(r"✗ few messages +0/2", text)
    assert "with 2 ranks: off by" in text
    assert text.count("Sum or mean?") == 1


def test_no_line_of_text_is_wider_than_the_table():
    hint = dataclasses.replace(FAILED.claims[1], message="a long word " * 40, hint="b " * 200)
    verdict = dataclasses.replace(FAILED, claims=(hint,), headline="word " * 60)
    assert max(map(len, as_text(verdict).splitlines())) <= WIDTH


def test_nothing_hostile_reaches_the_terminal_or_the_page():
    verdict = dataclasses.replace(
        FAILED,
        headline=HOSTILE,
        claims=(dataclasses.replace(FAILED.claims[1], message=HOSTILE),),
    )
    assert "\x1b" not in as_text(verdict, stacks=True)
    assert "\x07" not in as_text(verdict, stacks=True)
    html = as_html(verdict)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html


def test_stacks_are_shown_on_request_in_text_and_folded_in_html():
    assert "rank 1 of 2" not in as_text(FAILED)
    assert "rank 1 of 2" in as_text(FAILED, stacks=True)
    assert "<details><summary>where rank 1 of 2 stood</summary>" in as_html(FAILED)


def test_what_was_expected_follows_what_was_seen():
    claim = dataclasses.replace(FAILED.claims[1], message="rank 1 has 3", expected="7")
    verdict = dataclasses.replace(FAILED, claims=(claim,))
    assert "with 2 ranks: rank 1 has 3, expected 7" in as_text(verdict)
    assert "with 2 ranks: rank 1 has 3, expected 7" in as_html(verdict)


def test_a_world_size_is_named_only_where_claims_were_judged():
    claims = tuple(dataclasses.replace(c, message="not judged") for c in FAILED.claims[1:])
    text = as_text(dataclasses.replace(FAILED, claims=claims, cause="hang"))
    assert "not judged" in text
    assert "with 2 ranks" not in text
