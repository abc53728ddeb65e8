"""Stacks with the frames of libraries folded: what is left are the lines of the answer."""

import re
from collections.abc import Sequence
from pathlib import PurePath

# Of Python's tracebacks ("line 5, in step") and of faulthandler's ("line 5 in step") alike
_FRAME = re.compile(r'\s*File "(?P<file>[^"]*)", line \d+,? in (?P<function>.*)')
_PYTHONS_OWN = ("<frozen ", "<string>", "<stdin>")
_PACKAGES = {"site-packages", "dist-packages", "src"}


def folded(stack: str) -> str:
    """`stack` with each run of frames outside of the answer as one line.

    "  … 7 frames of torch: wrapper to all_reduce". A file of the answer, or of a notebook's cell,
    has a name in angle brackets. Lines that are not frames stay.
    """
    shown: list[str] = []
    hidden: list[tuple[str, str]] = []
    inside = False  # the last frame was one that is hidden: its source lines are, too

    def close() -> None:
        if hidden:
            shown.append(_summary(hidden))
            hidden.clear()

    for line in stack.split("\n"):
        frame = _FRAME.fullmatch(line)
        if frame and _is_library(frame["file"]):
            hidden.append((_package(frame["file"]), frame["function"]))
            inside = True
        elif inside and not frame and line.startswith("    "):
            continue
        else:
            close()
            inside = False
            shown.append(line)
    close()
    return "\n".join(shown)


def _is_library(file: str) -> bool:
    return not file.startswith("<") or file.startswith(_PYTHONS_OWN)


def _summary(frames: Sequence[tuple[str, str]]) -> str:
    packages = " and ".join(dict.fromkeys(package for package, _ in frames))
    count = f"{len(frames)} frames" if len(frames) > 1 else "1 frame"
    first, last = frames[0][1].strip(), frames[-1][1].strip()
    return f"  … {count} of {packages}: {first if first == last else f'{first} to {last}'}"


def _package(file: str) -> str:
    """The package that a file is of: "torch", "hpml", else "Python"."""
    parts = PurePath(file).parts
    at = max((k for k, part in enumerate(parts[:-1]) if part in _PACKAGES), default=None)
    package = parts[at + 1].removesuffix(".py") if at is not None else "Python"
    return package if at is None or parts[at] != "src" or package == "hpml" else "Python"
