"""The lines of an answer that a message names, quoted below it."""

from hpml.answer import syntax_error
from hpml.checks.source_lines import in_the_cell, lines_named, numbers_in, pointed_at, quotes

SOURCE = "# %%answer ddp\nimport torch\n\ndef f(x):\n\treturn x \x1b[2J\n"


def test_a_message_names_lines_of_the_answer_and_no_others():
    text = "rank 0 waits (call 1, line 4 of your answer); line 2 of a file, line 5 of your answer"
    assert numbers_in(text) == [4, 5]
    assert numbers_in("it raised in line 4, of your answer") == [4]


def test_the_lines_are_those_of_the_cell_made_safe():
    lines = lines_named(SOURCE, ["line 4 of your answer", "line 5 of your answer", "no line"])
    assert lines == ((4, "def f(x):"), (5, "    return x \N{REPLACEMENT CHARACTER}[2J"))
    assert lines_named(SOURCE, ["line 3 of your answer, line 99 of your answer"]) == ()


def test_a_quote_has_the_files_own_line_in_front():
    lines = lines_named(SOURCE, ["line 4 of your answer"])
    text = "it raised at line 4 of your answer"
    assert quotes(text, lines, lambda n: f"w.py:{30 + n}") == ["w.py:34 | def f(x):"]
    assert quotes(text, lines) == ["line 4 | def f(x):"]
    assert quotes("it raised", lines) == []


def test_a_syntax_error_points_at_its_place():
    error = syntax_error("%%answer ddp\ndef f(x):\n    return (x\n")
    line, caret, message = pointed_at(error, in_the_cell)
    assert line == "line 3 | return (x"
    assert line[caret.index("^")] == "("
    assert message == "SyntaxError: '(' was never closed"


def test_a_magic_in_an_answer_is_explained():
    error = syntax_error("%%answer ddp\n!pip install numpy\n")
    assert pointed_at(error, in_the_cell)[2].endswith("an answer is nothing but Python")


def test_a_long_line_is_cut_around_its_error():
    error = syntax_error("%%answer ddp\nx = [" + "1, " * 200 + "= 3]\n")
    line, caret, _ = pointed_at(error, in_the_cell)
    assert len(line) <= 96
    assert line[caret.index("^")] in "=1"
