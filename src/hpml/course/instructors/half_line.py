"""An answer in half a line: as much of a Markdown text as its reader takes in at a glance."""

import re

HALF_A_LINE = 100  # characters of small print

LABEL = re.compile(r"^\*\*[A-Z][^*.]*\.\*\*\s*")  # **Answer.**
_LISTED = re.compile(r"^(\d+)\.(?= )")  # "3. So many are there": Markdown takes it for a list
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*(])")
_CLAUSE = re.compile(r"(?<=[;:])\s|(?<=,)\s|\s(?=\()")
_WORD = re.compile(r"\s")
_CODE = re.compile(r"`[^`]*`|\$[^$]*\$")


def half_line(text: str, most: int = HALF_A_LINE) -> str:
    """The first sentences of a Markdown text that have at most `most` characters together.

    Where they have less than a third of that, or the first is longer, the text is cut at the end of
    the last clause, or else the last word, that has room, with an ellipsis; never in the middle of
    code, emphasis, a formula or brackets.
    """
    text = LABEL.sub("", " ".join(text.split()))
    text = _LISTED.sub(r"\1\\.", text)
    if len(text) <= most:
        return text
    ways = ((_SENTENCE, most // 3, ""), (_CLAUSE, most // 2, " …"), (_WORD, 1, " …"))
    for end, least, dots in ways:
        cuts = [match.start() for match in end.finditer(text, 0, most + 2)]
        good = [cut for cut in cuts if least <= cut <= most and _is_whole(text[:cut])]
        if good:
            kept = text[: good[-1]]
            return kept.rstrip(",;: ") + dots if dots else kept
    return text  # one long formula, or code


def _is_whole(part: str) -> bool:
    """Whether code, formulas, emphasis and brackets that begin in a part also end there."""
    rest = _CODE.sub("", part)
    open_marks = any(mark in rest for mark in "`$") or rest.count("*") % 2
    return not open_marks and all(rest.count(a) == rest.count(b) for a, b in ("()", "[]"))
