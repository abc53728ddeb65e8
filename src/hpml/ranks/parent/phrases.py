"""What a rank has called, how it has ended, and what it held, in words.

`lines_of` names the code whose lines a phrase has: "of your answer". What takes several logs says
the same of ranks that are alike once.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hpml.ranks import memory_limit
from hpml.ranks.evidence import KINDS, MEETING, Call
from hpml.ranks.parent import words
from hpml.ranks.parent.ledger import RankLog

LEAST_NAMED = 10**6  # bytes of one kind of tensors, to be in a sentence
MAX_NAME = 200  # characters of a tensor's name in a sentence
# Beginnings of lines at the end of PyTorch's messages that are not their cause
_NO_CAUSE = ("frame #", "Exception raised from", "In addition, you can set", "Set TORCH")


# Calls


def named(call: Call, lines_of: str) -> str:
    """ "all_reduce (call 2, line 7 of your answer)"."""
    peer = f" {call.detail}" if call.peer is not None else ""
    if call.operation in MEETING:
        return call.operation + words.in_line(call.line, lines_of)
    return f"{operation(call)}{peer} ({place(call, lines_of)})"


def operation(call: Call) -> str:
    """The operation, with the name of Horovod's tensor where it was given one.

    Names are "allreduce.x" under PyTorch, "scope/HorovodAllreduce_x_0" in TensorFlow's graphs and
    "HorovodAllreduce" outside of them.
    """
    name = call.tensor.rpartition("/")[2].removeprefix(f"{call.operation}.")
    name = re.sub(r"^Horovod(Grouped)?[A-Z][a-z]+_?", "", name)[:MAX_NAME]
    named = name and not name.startswith("noname")
    return f"{call.operation} of {name!r}" if named else call.operation


def place(call: Call, lines_of: str) -> str:
    if call.index < 1:  # of ranks that have stayed
        return "begun in an earlier cell"
    return f"call {call.index}" + (f", line {call.line} {lines_of}" if call.line else "")


def tensor(call: Call) -> str:
    return f"{call.dtype} {list(call.shape)}"


def brings(call: Call) -> str:
    what = tensor(call) if call.dtype else "nothing"
    return what + (f" {call.detail}" if call.detail else "")


def last_call(log: RankLog, lines_of: str) -> str:
    calls = [call for call in log.calls if call.index > 0]
    return named(calls[-1], lines_of) if calls else ""


# Where ranks are


def waits(logs: Sequence[RankLog], lines_of: str) -> list[str]:
    return [
        f"{words.ranks(ranks)} {words.form(ranks, 'waits', 'wait')} in {there}"
        for there, ranks in words.by(logs, lambda log: log.pending and named(log.pending, lines_of))
    ]


def asks(logs: Sequence[RankLog], lines_of: str) -> list[str]:
    return [
        f"{words.ranks(ranks)} {words.form(ranks, 'waits', 'wait')} for a reply"
        f"{words.at_line(line, lines_of)}"
        for line, ranks in words.by(logs, lambda log: log.line)
    ]


def stuck(logs: Sequence[RankLog], lines_of: str) -> list[str]:
    return [
        f"{words.ranks(ranks)} {words.form(ranks, 'is', 'are')} stuck"
        f"{words.at_line(line, lines_of)}, in no collective"
        for line, ranks in words.by(logs, lambda log: log.line)
    ]


def left(logs: Sequence[RankLog], waiting: Sequence[RankLog], lines_of: str) -> list[str]:
    parts = []
    for (end, last), ranks in words.by(logs, lambda log: (log.end, last_call(log, lines_of))):
        how = "returned" if end == "returned" else "ended"
        came = f"left through {last}" if last else "made no call at all"
        has = words.form(ranks, "has", "have")
        sentence = f"{words.ranks(ranks)} {has} {came if waiting else how}"
        parts.append(sentence + (f" and {how}" if waiting else ""))
    return parts


# Ends


def ended(log: RankLog, lines_of: str, *, many: bool = False) -> str:
    """How the rank ended; `many`: said of more than one."""
    if log.end == "killed":
        memory = " (the system may have run out of memory)" if log.signal == "SIGKILL" else ""
        return f"{'were' if many else 'was'} killed by {log.signal}{memory}"
    if log.end == "exited":
        at = words.at_line(log.line, lines_of)
        return f"left with exit code {log.exit_code}{at} instead of returning"
    assert log.raised is not None
    if log.refused is not None:
        return f"returned something that cannot be sent: {log.refused}"
    message = in_brief(log.raised.message)
    where = words.in_line(log.raised.line, lines_of)
    return f"raised {log.raised.kind}{': ' + message if message else ''}{where}"


def in_brief(message: str) -> str:
    """An exception's first line, and its last, which often has the cause, without C++'s frames."""
    lines = [line.strip() for line in message.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_NO_CAUSE)]
    ends = [lines[0], lines[-1]] if len(lines) > 1 else lines
    return " … ".join(_ends(line, most) for line, most in zip(ends, (300, 200), strict=False))


def _ends(text: str, most: int) -> str:
    """A text that is too long without its middle."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2].rstrip()} … {text[-most // 2 :].lstrip()}"


# Memory


def ran_out(log: RankLog, page: Mapping[str, Any] | None, lines_of: str) -> tuple[str, str]:
    """Where the rank ran out of memory, and what it held."""
    line = log.raised.line if log.raised else page["line"] if page else None
    operator = page["operator"].partition(".")[0].strip("_") if page else ""
    during = f", in {operator}" if operator.isidentifier() else ""
    return words.at_line(line, lines_of) + during, held(page) if page else ""


def held(page: Mapping[str, Any]) -> str:
    """ "410 MB of parameters and 180 MB of gradients", at the rank's peak."""
    named = zip(KINDS, page["at_peak"], strict=True)
    parts = [
        f"{memory_limit.words(nbytes)} of {kind if kind != 'other' else 'other tensors'}"
        for kind, nbytes in named
        if nbytes >= LEAST_NAMED
    ]
    if not parts:
        return f"less than {memory_limit.words(LEAST_NAMED)} of tensors"
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)
