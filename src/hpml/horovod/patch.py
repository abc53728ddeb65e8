"""Apply a patch in the unified format (diff -u), in Python: not every machine has `patch`."""

import re
from collections.abc import Iterator
from pathlib import Path

from hpml.errors import UserError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def apply(patch: Path, root: Path) -> None:
    """Change the files under `root` by `patch`: all of them, or none.

    Every line of context must be exactly where the patch has it. Text before a file's `---` line is
    a comment.

    Raises UserError where a file is not as the patch expects it.
    """
    made = {}
    for name, hunks in _files(patch.read_text().splitlines(keepends=True)):
        try:
            before = (root / name).read_text().splitlines(keepends=True)
        except FileNotFoundError:
            raise _mismatch(patch, name, "is not there") from None
        after, done = [], 0
        for start, body in hunks:
            old = [line[1:] for line in body if line[0] in " -"]
            after += before[done:start]
            if before[start : start + len(old)] != old:
                raise _mismatch(patch, name, f"is different at line {start + 1}")
            after += [line[1:] for line in body if line[0] in " +"]
            done = start + len(old)
        made[name] = "".join(after + before[done:])
    for name, text in made.items():
        (root / name).write_text(text)


def _files(lines: list[str]) -> Iterator[tuple[str, list[tuple[int, list[str]]]]]:
    """The files of a patch, each with its hunks: the index of its first line, and its body."""
    at = 0
    while at < len(lines):
        if not lines[at].startswith("--- a/"):
            at += 1
            continue
        name, hunks = lines[at].removeprefix("--- a/").strip(), []
        at += 2
        while at < len(lines) and (head := _HUNK.match(lines[at])):
            start, old, _, new = (1 if number is None else int(number) for number in head.groups())
            at += 1
            body = []
            while old > 0 or new > 0:
                body.append(lines[at])
                old -= lines[at][0] in " -"
                new -= lines[at][0] in " +"
                at += 1
            hunks.append((start - 1, body))
        yield name, hunks


def _mismatch(patch: Path, name: str, how: str) -> UserError:
    return UserError(f"horovod: {patch.name} does not fit: {name} {how}: restore the repository")
