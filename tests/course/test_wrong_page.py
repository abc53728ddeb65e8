"""The page of all wrong answers: what a learner reads of each, and of those not as meant, why."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from hpml import cli
from hpml.course.instructors import prove, wrong_page
from hpml.course.instructors.first_failure import FirstFailure
from hpml.course.instructors.prove import Row

SUM = FirstFailure("the sum is right", "with 2 ranks: 3 < 5", "", "Talk.")
RAISED = FirstFailure(
    "", "rank 1 raised in line 5 of your answer", "line 5 |     <script>1</script>", "Look."
)


def wrong(name: str, what: str, failure: FirstFailure | None, shows: str = "", **more: str) -> Row:
    return Row("total", "wrong answer", name, shows, wrong=what, first_failure=failure, **more)


ROWS = [
    Row("total", "check", "The sum over all ranks", "3 points"),
    Row("total", "solution", "03_rings.ipynb", "3 of 3 points"),
    wrong("own_number", "nobody is asked", SUM, reason="its hint is 'alone'"),
    wrong("leaves", "gives up", RAISED),
    wrong("slow", "takes long", None, "not gradable without a counter"),
    Row("bare", "check", "Without wrong answers", "0 points"),
]


def test_each_wrong_answer_is_a_row_with_what_its_learner_reads() -> None:
    page = wrong_page.write(ROWS)
    total = page[page.index('<h2 id="total">') :]
    texts = [re.sub(r"<[^>]+>", " ", row) for row in re.findall(r"<tr>.*?</tr>", total, re.DOTALL)]
    title, own_number, leaves, slow = (" ".join(unescape(text).split()) for text in texts)
    assert title == "what is wrong what the learner reads"
    assert own_number == (
        "nobody is asked own_number ✗ its hint is 'alone' "
        "the sum is right with 2 ranks: 3 < 5 Hint. Talk."
    )
    assert leaves == (
        "gives up leaves No claim was judged rank 1 raised in line 5 of your answer "
        "line 5 | <script>1</script> Hint. Look."
    )
    assert slow == "takes long slow not gradable without a counter"
    assert "<script" not in page
    assert 'id="bare"' not in page


def test_its_contents_count_answers_those_without_a_line_and_those_not_as_meant() -> None:
    contents = wrong_page.write(ROWS).split("<h2")[0]
    assert re.findall(r'<td class="number[^"]*">(\d+)', contents) == ["3", "1", "1"]


def test_in_a_file_the_table_of_the_rows_is_not_cut_to_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = wrong("a_name_of_more_than_twenty_letters", "x", SUM, "failed, hint alone " + "y" * 40)
    monkeypatch.setattr(prove, "prove", lambda *_, **__: [ROWS[0], long])
    with pytest.raises(SystemExit):
        cli.main(["course", "check"])
    shown = capsys.readouterr().out
    assert re.search(r"a_name_of_more_than_twenty_letters +failed, hint alone y{40}", shown)


def test_the_command_writes_it_beside_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prove, "prove", lambda *_, **__: ROWS)
    page = tmp_path / "made" / "page.html"
    with pytest.raises(SystemExit) as ended:
        cli.main(["course", "check", "--json", "--page", str(page)])
    assert ended.value.code == 1  # a row is not good
    assert page.read_text(encoding="utf-8") == wrong_page.write(ROWS)
    shown = json.loads(capsys.readouterr().out)["rows"][2]
    assert shown["wrong"] == "nobody is asked"
    assert shown["first_failure"] == {
        "claim": "the sum is right",
        "message": "with 2 ranks: 3 < 5",
        "line": "",
        "hint": "Talk.",
    }
