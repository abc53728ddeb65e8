"""The lines of an answer that a message is about: "line 5 of your answer", quoted."""

import re
from collections.abc import Callable, Iterable

from hpml.files.sanitize import one_line, plain, short

MOST = 4  # lines quoted below one message
COLUMNS = 160

_NAMED = re.compile(r"\bline (\d{1,6})\b(?=,? of your answer)")

Lines = tuple[tuple[int, str], ...]  # (number, text), the `%%answer` line being 1
Place = Callable[[int], str]  # how a line of the answer is named: "w.py:35", "line 5"


def in_the_cell(number: int) -> str:
    """The place of a line as a notebook shows it."""
    return f"line {number}"


def numbers_in(text: str) -> list[int]:
    """The lines of the answer that a message names, in their order there."""
    return list(dict.fromkeys(int(number) for number in _NAMED.findall(text)))[:MOST]


def lines_named(source: str, texts: Iterable[str]) -> Lines:
    """The answer's lines that these messages name, made safe to show; by number."""
    lines = source.splitlines()
    numbers = sorted({number for text in texts for number in numbers_in(text)})
    return tuple(
        (number, short(plain(lines[number - 1].expandtabs(4), keep="").rstrip(), COLUMNS))
        for number in numbers
        if 0 < number <= len(lines) and lines[number - 1].strip()
    )


def quotes(text: str, lines: Lines, place: Place = in_the_cell) -> list[str]:
    """A line for each line of the answer that `text` names: "w.py:35 |     dist.barrier()"."""
    known = dict(lines)
    found = [(place(number), known[number]) for number in numbers_in(text) if number in known]
    width = max((len(where) for where, _ in found), default=0)
    return [f"{where:>{width}} | {source}" for where, source in found]


def pointed_at(error: SyntaxError, place: Place) -> list[str]:
    """A syntax error of an answer: the line, the place in it, and what is wrong, in 3 lines."""
    where = f"{place(error.lineno or 1)} | "
    source = plain((error.text or "").rstrip("\n").expandtabs(4), keep="")
    text = source.lstrip()
    column = max((error.offset or 1) - 1 - (len(source) - len(text)), 0)
    room = max(20, 92 - len(where))
    begin = max(0, column - room + 10) if len(text) > room else 0
    shown = short(text[begin:], room)
    caret = " " * (len(where) + min(column - begin, room)) + "^"
    what = f"SyntaxError: {one_line(error.msg or 'not valid Python')}"
    if text.startswith(("!", "%")):
        what += ": below its first line an answer is nothing but Python"
    return [f"{where}{shown}", caret, what]
