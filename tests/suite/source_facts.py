"""What one source names: modules that it imports, and what its strings name.

A job script, or another text that is not Python, names what it names anywhere in it.

Facts depend on the file's text alone, so that they can be kept by its hash.
"""

import ast
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

# Folders whose files a source may go through without naming one of them
FOLDERS = ("slurm", "notebooks", "solutions", "exercises", "docs", "packages")
SOURCES = "*.py"  # a file that asks for these may read any source
_MODULE = re.compile(r"\bhpml(?:\.\w+)+")
_COMMENT = re.compile(r"^# (.*)", re.MULTILINE)  # as jupytext writes a cell with a magic
_IMPORT = re.compile(r"from (hpml(?:\.\w+)*) import ([\w, ]+)")
_WORD = re.compile(r"[a-z]\w{2,40}")
_FILE = re.compile(r"[\w-]*(?:[./][\w-]+)+")

_READER = Path(__file__).read_text(encoding="utf-8")  # what another version of it kept is not used


@dataclass(frozen=True)
class Facts:
    """What a source names."""

    imports: tuple[str, ...]  # hpml.room.module, or hpml.room.module.name
    relative: tuple[tuple[int, str], ...]  # level, and the name: `from ..a import b` is (2, "a.b")
    names: tuple[str, ...]  # in strings: dotted modules, files, and folders
    words: tuple[str, ...]  # strings that are one name: "ddp" may be an exercise, or a module


class SourceFacts:
    """Facts by the hash of a source, kept in a file."""

    def __init__(self, kept: Path | None) -> None:
        self._kept = kept
        self._known: dict[str, dict] = {}
        self._used: dict[str, dict] = {}
        if kept is not None:
            with contextlib.suppress(OSError, ValueError):
                self._known = json.loads(kept.read_text())

    def of(self, path: Path) -> Facts:
        text = path.read_text(encoding="utf-8")
        digest = hashlib.sha256(f"{_READER}{text}".encode()).hexdigest()
        if digest not in self._known:
            self._known[digest] = asdict(read(text) if path.suffix == ".py" else read_script(text))
        self._used[digest] = self._known[digest]
        values = self._known[digest]
        relative = tuple((level, name) for level, name in values["relative"])
        return Facts(
            tuple(values["imports"]), relative, tuple(values["names"]), tuple(values["words"])
        )

    def save(self) -> None:
        """Keep the facts that were asked for, and no others."""
        if self._kept is None:
            return
        new = self._kept.with_name(f"{self._kept.name}.{os.getpid()}")
        try:
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(self._used))
            new.replace(self._kept)
        except OSError:  # it only makes the next run faster
            new.unlink(missing_ok=True)


def read(text: str) -> Facts:
    """The facts of a source. Raises SyntaxError."""
    tree = ast.parse(text)
    docstrings = set(_docstrings(tree))
    imports, relative, names, words = set(), set(), set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names if alias.name.split(".")[0] == "hpml"}
        elif isinstance(node, ast.ImportFrom) and node.level:
            module = f"{node.module}." if node.module else ""
            relative |= {(node.level, f"{module}{alias.name}") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hpml":
            imports |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in docstrings:
                continue
            names |= set(_named(node.value))
            if _WORD.fullmatch(node.value):
                words.add(node.value)
    magics = "\n".join(_COMMENT.findall(text))
    names |= set(_MODULE.findall(magics))
    for module, what in _IMPORT.findall(magics):
        imports |= {f"{module}.{name}" for name in re.findall(r"\w+", what)}
    return Facts(*(tuple(sorted(each)) for each in (imports, relative, names, words)))


def read_script(text: str) -> Facts:
    """The facts of a job script."""
    return Facts((), (), tuple(sorted(set(_named(text)))), ())


def _named(text: str) -> Iterator[str]:
    yield from _MODULE.findall(text)
    yield from _FILE.findall(text)
    if text.endswith(SOURCES):
        yield SOURCES
    if text.strip("/") in FOLDERS:
        yield text.strip("/")


def _docstrings(tree: ast.AST) -> Iterator[int]:
    """The ids of the nodes that are docstrings: prose, which starts nothing."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield id(first.value)
