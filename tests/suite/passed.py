"""tests/passed.txt: what had passed when it was last written, for a machine that has kept nothing.

A run of the whole suite that is green has played everything whose key was new, so it writes the
keys of all; commit the file with what you changed. What a clone, as in CI, finds in it has passed
elsewhere, and is played in turn only.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE = "tests/passed.txt"
HEAD = """\
# Written by ./hpml test when it is green: a hash for all that had passed (tests/suite/passed.py)
# runs: {runs}
"""
DIGITS = 10
IN_A_LINE = 9


@dataclass(frozen=True)
class Passed:
    """What the file says. `runs`: how many times it was written; deals out whose turn it is."""

    runs: int = 0
    marks: frozenset[str] = frozenset()

    def holds(self, kind: str, name: str, key: str) -> bool:
        """Whether this passed with this key, or with a key of which this is the first half."""
        return mark(kind, name, key) in self.marks


def near(key: str) -> str:
    """The half of a key that stays the same when only something far below changes."""
    return key.partition("-")[0]


def mark(kind: str, name: str, key: str) -> str:
    return hashlib.sha256("\0".join((kind, name, key)).encode()).hexdigest()[:DIGITS]


def read(root: Path) -> Passed:
    """The file of a checkout; nothing has passed where it is not there, or cannot be read."""
    try:
        text = (root / FILE).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return Passed()
    runs = re.search(r"^# runs: (\d+)$", text, re.MULTILINE)
    marks = frozenset(re.findall(rf"\b[0-9a-f]{{{DIGITS}}}\b", text))
    return Passed(int(runs[1]) if runs else 0, marks)


def write(root: Path, before: Passed, keys: Mapping[str, Mapping[str, str]]) -> bool:
    """Write that all of these passed (kind, name, key), if it is not what the file says already.

    What passed before something far below it changed has the first half of its key alone.

    Returns whether it wrote.
    """
    marks = sorted(
        mark(kind, name, each)
        for kind in keys
        for name, key in keys[kind].items()
        for each in {key, near(key)}
    )
    if frozenset(marks) == before.marks or not (root / FILE).parent.is_dir():
        return False
    rows = (marks[at : at + IN_A_LINE] for at in range(0, len(marks), IN_A_LINE))
    text = HEAD.format(runs=before.runs + 1) + "".join(f"{' '.join(row)}\n" for row in rows)
    (root / FILE).write_text(text, encoding="utf-8")
    return True
