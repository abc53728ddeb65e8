"""Text that somebody else wrote, made safe to show: the one place where that is done.

It cannot redraw a terminal, reorder a line (Boucher and Anderson, Trojan Source, 2021), or hold a
character that XML or CSV cannot; what it means to the reader stays. What is made safe twice is the
same as what is made safe once.
"""

BREAKS = "\n\t"
BAD = "\N{REPLACEMENT CHARACTER}"


def plain(text: str, keep: str = BREAKS) -> str:
    """`text` with every character that is not seen replaced, but for those in `keep`.

    Controls, escapes, surrogates, marks of direction and unassigned characters become U+FFFD; what
    ends a line on any system becomes a newline first.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    if lines.translate(dict.fromkeys(map(ord, keep))).isprintable():
        return lines
    return "".join(c if c.isprintable() or c in keep else BAD for c in lines)


def one_line(text: str, limit: int = 200) -> str:
    """`text` in one line of at most `limit` characters."""
    return short(plain(" ".join(text[: 4 * limit].split()), keep=""), limit)


def short(line: str, limit: int = 200) -> str:
    """The first `limit` characters of a line, the last of them "…" where there are more."""
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def cut(text: str, limit: int) -> str:
    """The first `limit` characters of `text`, and a line with how many are left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()}\n… {len(text) - limit} more characters are left out here"
