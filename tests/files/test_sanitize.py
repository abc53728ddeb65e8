"""Whatever somebody wrote, it is safe to show, and what was safe stays as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.files.sanitize import BAD, cut, one_line, plain, short


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("Jörg Müller, 李小龙 √2 ≤ 3\n\tx = 1", "Jörg Müller, 李小龙 √2 ≤ 3\n\tx = 1"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[2J\x07\0", f"{BAD}[2J{BAD}{BAD}"),
        ("\u202eevil\u2066 \ud800 \uffff", f"{BAD}evil{BAD} {BAD} {BAD}"),
    ],
)
def test_what_is_not_seen_is_replaced_and_nothing_else(text, safe):
    assert plain(text) == safe


@given(st.text(st.characters()))
def test_any_text_is_safe_to_show(text):
    safe = plain(text)
    safe.encode()
    assert all(c.isprintable() or c in "\n\t" for c in safe)
    assert plain(safe) == safe


@given(st.text(st.characters()), st.integers(2, 300))
def test_any_text_is_one_printable_line_of_limited_length(text, limit):
    line = one_line(text, limit)
    line.encode()
    assert line.isprintable()
    assert len(line) <= limit
    assert one_line(line, limit) == line


def test_what_is_left_out_is_marked():
    assert short("one two three", 8) == "one two…"
    assert cut("one two three", 8) == "one two\n… 5 more characters are left out here"
    assert short("one", 3) == cut("one", 3) == "one"
