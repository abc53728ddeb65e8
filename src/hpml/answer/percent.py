"""Magics in the comments of a percent script, and lines that begin in quotes: as jupytext has it.

A script's `# %%answer ddp` is the cell's `%%answer ddp`. The rules are those of jupytext's
`uncomment_magic` and `StringParser`, for Python. jupytext itself takes a second to import, most of
it for a JSON schema that no script needs; `tests/answer/test_cells.py` compares the two.
"""

import re

# What a line is where it is a magic: one that is marked so, or any that is not marked otherwise
_MARKED = re.compile(r"\s*(?:# |#)*%{1,3}[a-zA-Z].*#\s*escape")
_NOT_ONE = re.compile(r"\s*(?:# |#)*%{1,3}[a-zA-Z].*#\s*noescape")
_MAGICS = tuple(
    map(
        re.compile,
        (
            r"\s*(?:# |#)*%{1,3}[a-zA-Z]",  # %time, %%answer
            r"\s*(?:(?:# |#)+\s*)?[?!]\s*[A-Za-z.~$\\/{}]",  # !ls, ?print
            r"(?:# |#)*\s*[a-zA-Z_][a-zA-Z_$0-9]*\s*=\s*(?:%{1,3}|!)[a-zA-Z]",  # files = !ls
            r"\s*(?:# )*\S*\?\s*$",  # print?
            r"(?:# |#)*(?:cat|cd|cp|mv|rm|rmdir|mkdir|copy|ddir|echo|ls|ldir|ren)(?:$|\s$|\s[^=,])",
        ),
    )
)
_GOES_ON = re.compile(r".*\\\s*$")


class Quotes:
    """Whether the next line of a script begins inside a string of several lines."""

    def __init__(self) -> None:
        self.inside = ""  # the character of the triple quotes that are open

    def read_line(self, line: str) -> None:
        """Take in the next line."""
        if not self.inside and line.lstrip().startswith("#"):
            return
        single = ""  # the quote of a string that is open in this line
        started = -1  # where triple quotes last began or ended
        for at, char in enumerate(line):
            if char == "#" and not (single or self.inside):
                return
            if char not in "\"'" or line[at - 1 : at] == "\\":
                continue
            if single:
                single = "" if single == char else single
            elif line[at - 2 : at + 1] == 3 * char and at >= started + 3:
                if self.inside in ("", char):
                    self.inside, started = "" if self.inside else char, at
            elif not self.inside:
                single = char


def uncommented(lines: list[str]) -> list[str]:
    """A code cell's lines, with its magics as a notebook has them."""
    quotes, goes_on, found = Quotes(), False, []
    for line in lines:
        if not quotes.inside and (goes_on or _is_magic(line)):
            found.append(_without_comment(line))
            goes_on = _GOES_ON.match(line) is not None
        else:
            found.append(line)
        quotes.read_line(line)
    return found


def _is_magic(line: str) -> bool:
    if _MARKED.match(line):
        return True
    return not _NOT_ONE.match(line) and any(magic.match(line) for magic in _MAGICS)


def _without_comment(line: str) -> str:
    text = line.lstrip()
    indent = line[: len(line) - len(text)]
    return indent + text.removeprefix("# " if text.startswith("# ") else "#")
