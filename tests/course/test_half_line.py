"""An answer in half a line."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.course.instructors.half_line import HALF_A_LINE, half_line


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("**Answer.** Three.", "Three."),
        ("**Answer.** 3. Two graphs.", r"3\. Two graphs."),
        ("One two three. Four five six. Seven.", "One two three. Four five six."),
        ("No. One, two, three; four, and so on to the end.", "No. One, two, three; four …"),
        ("By up to three, or more: `a - b` is between.", "By up to three, or more …"),
        ("All of that is in *one two three four five six*", "All of that is in …"),
        ("word " * 20, "word word word word word word …"),
        ("`" + "x" * 40 + "`", "`" + "x" * 40 + "`"),
    ],
)
def test_it_ends_with_a_sentence_or_else_a_clause_or_else_a_word(text, short):
    assert half_line(text, 30) == short


PIECE = st.sampled_from(["word", "No.", "`a b`", "*two words*", "$x * y$", "(in brackets)", "end,"])


@given(st.lists(PIECE, min_size=1, max_size=80).map(" ".join))
def test_code_emphasis_formulas_and_brackets_are_never_cut(text):
    short = half_line(text)
    assert len(short) <= HALF_A_LINE + 2
    rest = re.sub(r"`a b`|\*two words\*|\$x \* y\$|\(in brackets\)", "", short)
    assert not set(rest) & set("`*$()")
    assert text.startswith(short.removesuffix(" …"))
