"""What a message costs besides its bytes: the same gradients sent one by one, and in a buffer."""

from typing import NamedTuple

from hpml.ranks.evidence import Evidence
from hpml.trace.repetition import messages_and_seconds


def table(evidence: Evidence, names: tuple[str, str] = ("one by one", "one buffer")) -> str:
    """Messages, kB and ms of the quickest repetition of each way, by the names of its marks."""
    lines = []
    for name in names:
        messages, nbytes, seconds = messages_and_seconds(evidence, name)
        sent = f"{messages:4} all-reduces {nbytes / 1e3:7.1f} kB"
        lines.append(f"{name:12} {sent} {seconds * 1e3:8.1f} ms")
    return "\n".join(lines)


class Price(NamedTuple):
    """Many all-reduces and their seconds, the seconds of the one that has all their bytes, and the
    difference for each: α with all that the library does. `held`: one is clearly quicker."""

    held: bool
    many: int
    slow: float
    quick: float
    alpha: float


def per_message(evidence: Evidence, names: tuple[str, str] = ("one by one", "one buffer")) -> Price:
    """From the quickest repetition of each way, by the names of its marks."""
    (many, _, slow), (one, _, quick) = (messages_and_seconds(evidence, name) for name in names)
    return Price(slow > 2 * quick, many, slow, quick, (slow - quick) / (many - one))
