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


def test_what_an_answer_printed_and_its_lines_are_escaped_and_cut_too():
    verdict = dataclasses.replace(
        FAILED,
        headline="rank 0 waits (call 2, line 4 of your answer)",
        shown_at=2,
        case=HOSTILE,
        printed=f"[0] {HOSTILE}\n[1] {'long ' * 100}",
        lines=((4, f"    print({HOSTILE!r})  # {'long ' * 100}"),),
        calls=f"rank 0  1 {HOSTILE}",
    )
    text, html = as_text(verdict), as_html(verdict, ["judged: the answer that was run at 04:16"])
    assert "\x1b" not in text + html
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "line 4 |     print(" in text
    assert "    [0] <script>alert(1)</script>" in text
    assert "printed with 2 ranks:" in text
    assert "<script" not in html
    assert "<summary>what the answer printed with 2 ranks</summary>" in html
    assert "judged: the answer that was run at 04:16" in html


def test_code_is_code_on_the_page_and_backticks_in_a_terminal():
    words = "Who calls it, inside `if rank == 0 < 1:`? And ` alone?"
    claim = dataclasses.replace(FAILED.claims[1], hint=words, message=words)
    verdict = dataclasses.replace(FAILED, claims=(claim,), headline=words)
    page = as_html(verdict, [words])
    assert page.count("inside <code>if rank == 0 &lt; 1:</code>? And ` alone?") == 4
    assert "inside `if rank == 0 < 1:`?" in as_text(verdict)


def test_a_case_has_the_number_of_ranks_where_that_varies():
    verdict = dataclasses.replace(FAILED, case="7 elements", shown_at=3)
    assert "the case: 7 elements, with 3 ranks\n" in as_text(verdict)
    verdict = dataclasses.replace(verdict, shown_at=None)
    assert "the case: 7 elements\n" in as_text(verdict)


def test_stacks_are_shown_on_request_in_text_and_folded_in_html():
    assert "rank 1 of 2" not in as_text(FAILED)
    assert "rank 1 of 2" in as_text(FAILED, stacks=True)
    assert "<details><summary>where rank 1 of 2 stood</summary>" in as_html(FAILED)


def test_each_state_of_a_claim_has_a_mark_of_its_own():
    later = ClaimResult("few bytes", False, 1, "not judged until", reached=False)
    unclear = ClaimResult("in time", False, 1, "no clock here", judged=False)
    verdict = dataclasses.replace(FAILED, claims=(*FAILED.claims[:2], later, unclear))
    marks = re.findall(r"^  ([✓✗–?]) ", as_text(verdict), re.MULTILINE)
    assert marks == ["✓", "✗", "–", "?"]
    cells = re.findall(r'<td style="color:var\((.*?)\)">(.)</td>', as_html(verdict))
    assert [mark for _, mark in cells] == marks
    assert len({colour for colour, _ in cells}) == 4


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
