"""Text that a submission wrote, made fit to be quoted.

It cannot redraw a terminal, reorder a line (Boucher and Anderson, Trojan Source, 2021), or hold a
character that XML or CSV cannot; what it means to the reader stays.
"""

BREAKS = "\n\t"
BAD = "\N{REPLACEMENT CHARACTER}"


def plain(text: str, keep: str = BREAKS) -> str:
    """`text` with every character that is not seen replaced, but for those in `keep`.

    Controls, escapes, surrogates, marks of direction and unassigned characters become U+FFFD; what
    ends a line on any system becomes a newline first.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(c if c.isprintable() or c in keep else BAD for c in lines)


def one_line(text: str, limit: int = 200) -> str:
    """`text` in one line of at most `limit` characters."""
    words = plain(" ".join(text[: 4 * limit].split()), keep="")
    return words if len(words) <= limit else f"{words[: limit - 1].rstrip()}…"


def cut(text: str, limit: int) -> str:
    """The first `limit` characters of `text`, and a line that says how many are left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()}\n… {len(text) - limit} more characters are left out here"
