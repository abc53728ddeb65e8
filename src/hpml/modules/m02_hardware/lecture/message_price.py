"""What a message costs besides its bytes: the same gradients sent one by one, and in a buffer."""

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


def per_message(
    evidence: Evidence, rate: float, names: tuple[str, str] = ("one by one", "one buffer")
) -> tuple[bool, str, str]:
    """For `conclude`: α of an all-reduce on a link of `rate` bytes/s, with all that its library
    does, and the bytes that take as long.

    α is the difference of the seconds over that of the all-reduces; their bytes are the same.
    """
    (many, _, slow), (one, _, quick) = (messages_and_seconds(evidence, name) for name in names)
    alpha = (slow - quick) / (many - one)
    return (
        slow > 2 * quick,
        f"**Answer.** The bytes are the same. {many} all-reduces take {slow * 1e3:.0f} ms, one "
        f"takes {quick * 1e3:.1f} ms: α is {alpha * 1e6:.0f} µs for each all-reduce here. In that "
        f"time the link carries {alpha * rate / 1e3:.0f} kB.",
        f"{many} all-reduces took {slow * 1e3:.0f} ms, and one took {quick * 1e3:.0f} ms.",
    )
