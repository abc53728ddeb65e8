"""The course as course.toml lists it: modules in order, with their exercises.

The rest is derived from a module's id and name: notebooks, job scripts, and the folder of its
checks. An exercise's points are read from its check's file.
"""

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hpml.errors import UserError
from hpml.paths import CHECKOUT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Exercise:
    """An exercise in the schedule."""

    id: str
    minutes: int  # for a good PyTorch programmer who has just read the section
    core: bool  # of the core path, which fits the module's slot
    check: Path  # the file that defines its check

    @property
    def points(self) -> int:
        """The sum of its claims' points. Raises UserError if the file cannot be read."""
        return points_in(self.check)


@dataclass(frozen=True)
class Module:
    """One module. Paths are relative to the folder of course.toml, notebooks as .ipynb."""

    id: str  # "06"
    name: str  # "torch_distributed"
    title: str
    slot: str  # when it begins: "13:30", "before the day"
    minutes: int  # how long the slot is
    asks: str
    exercises: tuple[Exercise, ...]
    jobs: tuple[Path, ...]
    leads: str = ""  # the title of what the report's front page begins with, from its lecture

    @property
    def stem(self) -> str:
        """The base name of its files: 06_torch_distributed."""
        return f"{self.id}_{self.name}"

    @property
    def notebook(self) -> Path:
        return Path("notebooks", f"{self.stem}.ipynb")

    @property
    def solution(self) -> Path:
        return Path("solutions", f"{self.stem}.ipynb")

    @property
    def exercise_notebook(self) -> Path:
        return Path("exercises", f"{self.stem}.ipynb")

    @property
    def core(self) -> tuple[Exercise, ...]:
        """The exercises of the core path."""
        return tuple(exercise for exercise in self.exercises if exercise.core)

    @property
    def points(self) -> int:
        return sum(exercise.points for exercise in self.exercises)


@dataclass(frozen=True)
class Course:
    """The whole course. `root` is the folder that the modules' paths are relative to."""

    title: str
    subtitle: str
    modules: tuple[Module, ...]
    root: Path

    @property
    def points(self) -> int:
        return sum(module.points for module in self.modules)

    @property
    def leading(self) -> Module | None:
        """The module whose lecture has the figure that the report's front page begins with."""
        return next((module for module in self.modules if module.leads), None)

    @property
    def core(self) -> tuple[Exercise, ...]:
        """The exercises of the core path, in the order of the day."""
        return tuple(exercise for module in self.modules for exercise in module.core)

    def module(self, name: str) -> Module:
        """The module named '06', '6', 'torch_distributed' or '06_torch_distributed'."""
        wanted = name.strip()
        number = wanted.zfill(2) if wanted.isdecimal() else wanted
        for module in self.modules:
            if number in (module.id, module.name, module.stem):
                return module
        there = ", ".join(f"{module.id} ({module.name})" for module in self.modules)
        raise UserError(f"no module {name!r} in course.toml: use one of {there}")

    def select(self, names: Iterable[str]) -> tuple[Module, ...]:
        """The named modules in the order of the course; all of them when none is named."""
        wanted = {self.module(name).id for name in names}
        return tuple(module for module in self.modules if not wanted or module.id in wanted)

    def module_of(self, exercise: str) -> Module:
        """The module that an exercise id belongs to."""
        for module in self.modules:
            if any(entry.id == exercise for entry in module.exercises):
                return module
        raise UserError(f"no exercise {exercise!r} in course.toml: ./hpml list shows all of them")

    def exercise(self, exercise: str) -> Exercise:
        """The entry of an exercise id."""
        module = self.module_of(exercise)
        return next(entry for entry in module.exercises if entry.id == exercise)


def load(path: Path = CHECKOUT / "course.toml") -> Course:
    """Read and validate course.toml. A UserError names the file, the entry and the fault."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: restore it from the repository") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path.name}: not valid TOML: {error}") from None
    where, root = path.name, path.parent.resolve()
    entries = _take(table, "module", list, where)
    course = Course(
        title=_take(table, "title", str, where),
        subtitle=_take(table, "subtitle", str, where),
        modules=tuple(
            _module(entry, root, f"{where}: module {number}")
            for number, entry in enumerate(entries, 1)
        ),
        root=root,
    )
    _only(table, {"title", "subtitle", "module"}, where)
    _unique("module id", [module.id for module in course.modules], where)
    _unique("module name", [module.name for module in course.modules], where)
    _unique("exercise id", [e.id for module in course.modules for e in module.exercises], where)
    leading = [module.id for module in course.modules if module.leads]
    if len(leading) > 1:
        raise UserError(f"{where}: modules {' and '.join(leading)} lead the report: leave one")
    return course


@cache
def points_in(check: Path) -> int:
    """The sum of the points of all claims in a check's file.

    The file is parsed, not imported, since checks import torch. So each claim's points must be a
    literal number, else a UserError is raised; prove.py compares the sum with the check's. Claims
    are made outside functions, most of the file is inside: looking there takes most of the time.
    """
    try:
        tree = ast.parse(check.read_bytes())
    except OSError as error:
        raise UserError(f"{check}: {error.strerror}: an exercise needs its check") from None
    except (SyntaxError, ValueError) as error:
        raise UserError(f"{check}: not valid Python: {error}") from None
    total = 0
    outside = [part for part in tree.body if not isinstance(part, ast.FunctionDef | ast.ClassDef)]
    for node in (node for part in outside for node in ast.walk(part)):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Claim"):
            continue
        named = [keyword.value for keyword in node.keywords if keyword.arg == "points"]
        points = [*node.args[1:2], *named]
        value = getattr(points[0], "value", None) if len(points) == 1 else None
        if type(value) is not int:
            what = "a claim's points must be a whole number, written as the second argument"
            raise UserError(f"{check}, line {node.lineno}: {what}")
        total += value
    return total


_STRINGS = ("id", "name", "title", "slot", "asks")


def _module(entry: Any, root: Path, where: str) -> Module:
    if not isinstance(entry, dict):
        raise UserError(f"{where}: expected a [[module]] table, found {entry!r}")
    where = f"{where} ({entry.get('name', 'no name')})"
    _only(entry, {*_STRINGS, "minutes", "exercises", "leads"}, where)
    strings = {key: _take(entry, key, str, where) for key in _STRINGS}
    if not re.fullmatch(r"\d\d", strings["id"]):
        raise UserError(f"{where}: id is {strings['id']!r}, expected two digits")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", strings["name"]):
        raise UserError(f"{where}: name is {strings['name']!r}, expected lower_case_words")
    checks = root / "src/hpml/modules" / f"m{strings['id']}_{strings['name']}" / "checks"
    items = _take(entry, "exercises", list, where)
    scripts = sorted((root / "slurm").glob(f"{strings['id']}_*.slurm"))
    return Module(
        **strings,
        minutes=_minutes(entry, where),
        exercises=tuple(_exercise(item, checks, where) for item in items),
        jobs=tuple(script.relative_to(root) for script in scripts),
        leads=_take({"leads": "", **entry}, "leads", str, where),
    )


def _exercise(item: Any, checks: Path, where: str) -> Exercise:
    if not isinstance(item, dict):
        raise UserError(f"{where}: exercise {item!r}, expected {{ id = …, minutes = … }}")
    name = _take(item, "id", str, f"{where}: exercise")
    where = f"{where}: exercise {name}"
    _only(item, {"id", "minutes", "core"}, where)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UserError(f"{where}: the id is not lower_case_words")
    minutes, core = _minutes(item, where), item.get("core", False)
    if not isinstance(core, bool):
        raise UserError(f"{where}: core is {core!r}, expected true or false")
    return Exercise(name, minutes, core, checks / f"{name}.py")


def _minutes(table: Mapping[str, Any], where: str) -> int:
    minutes = _take(table, "minutes", int, where)
    if isinstance(minutes, bool) or minutes < 1:
        raise UserError(f"{where}: minutes = {minutes!r}, expected a whole number of at least 1")
    return minutes


def _take(table: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in table:
        raise UserError(f"{where}: {key} is missing")
    if not isinstance(table[key], kind):
        raise UserError(f"{where}: {key} is {table[key]!r}, expected {_KINDS[kind]}")
    return table[key]


_KINDS = {str: "a string", int: "a whole number", list: "a list"}


def _only(table: Mapping[str, Any], known: set[str], where: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise UserError(
            f"{where}: unknown key {unknown[0]!r}, known are {', '.join(sorted(known))}"
        )


def _unique(what: str, names: list[str], where: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UserError(f"{where}: {what} {twice[0]!r} is there twice")
