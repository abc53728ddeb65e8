"""The day as course.toml tells it: modules in order, with their notebooks, exercises and jobs."""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    """An exercise as the schedule has it. `points` are the sum of its check's claims."""

    id: str
    points: int


@dataclass(frozen=True)
class Module:
    """One module. Paths are relative to the folder of course.toml, notebooks as .ipynb."""

    id: str  # "06"
    name: str  # "torch_distributed"
    title: str
    slot: str  # "13:30", "before the day"
    asks: str
    notebook: Path
    solution: Path
    exercise_notebook: Path
    exercises: tuple[Exercise, ...]
    jobs: tuple[Path, ...]

    @property
    def points(self) -> int:
        return sum(exercise.points for exercise in self.exercises)


@dataclass(frozen=True)
class Day:
    """The whole day. `root` is the folder that the modules' paths are relative to."""

    title: str
    subtitle: str
    modules: tuple[Module, ...]
    root: Path

    @property
    def points(self) -> int:
        return sum(module.points for module in self.modules)

    def module(self, name: str) -> Module:
        """The module that '06', '6', 'torch_distributed' or '06_torch_distributed' means."""
        wanted = name.strip()
        number = wanted.zfill(2) if wanted.isdecimal() else wanted
        for module in self.modules:
            if number in (module.id, module.name, f"{module.id}_{module.name}"):
                return module
        there = ", ".join(f"{module.id} ({module.name})" for module in self.modules)
        raise UserError(f"no module {name!r} in course.toml: use one of {there}")

    def select(self, names: Iterable[str]) -> tuple[Module, ...]:
        """The named modules in the order of the day; all of them when none is named."""
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


def load(path: Path = CHECKOUT / "course.toml") -> Day:
    """Read and validate course.toml; a UserError names the file, the entry and the finding."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path} is missing: restore it from the repository") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path.name}: not valid TOML: {error}") from None
    where = path.name
    entries = _take(table, "module", list, where)
    day = Day(
        title=_take(table, "title", str, where),
        subtitle=_take(table, "subtitle", str, where),
        modules=tuple(
            _module(entry, f"{where}: module {number}") for number, entry in enumerate(entries, 1)
        ),
        root=path.resolve().parent,
    )
    _only(table, {"title", "subtitle", "module"}, where)
    _unique("module id", [module.id for module in day.modules], where)
    _unique("module name", [module.name for module in day.modules], where)
    _unique("exercise id", [e.id for module in day.modules for e in module.exercises], where)
    return day


_STRINGS = ("id", "name", "title", "slot", "asks")
_PATHS = ("notebook", "solution", "exercise_notebook")


def _module(entry: Any, where: str) -> Module:
    if not isinstance(entry, dict):
        raise UserError(f"{where}: expected a [[module]] table, found {entry!r}")
    where = f"{where} ({entry.get('name', 'no name')})"
    _only(entry, {*_STRINGS, *_PATHS, "exercises", "jobs"}, where)
    strings = {key: _take(entry, key, str, where) for key in _STRINGS}
    if not re.fullmatch(r"\d\d", strings["id"]):
        raise UserError(f"{where}: id is {strings['id']!r}, expected two digits")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", strings["name"]):
        raise UserError(f"{where}: name is {strings['name']!r}, expected lower_case_words")
    paths = {key: _path(_take(entry, key, str, where), key, where) for key in _PATHS}
    for key, path in paths.items():
        if path.suffix != ".ipynb":
            raise UserError(f"{where}: {key} is {str(path)!r}, expected a .ipynb")
    return Module(
        **strings,
        **paths,
        exercises=tuple(_exercise(item, where) for item in _take(entry, "exercises", list, where)),
        jobs=tuple(_path(item, "jobs", where) for item in _take(entry, "jobs", list, where)),
    )


def _exercise(item: Any, where: str) -> Exercise:
    if not isinstance(item, dict):
        raise UserError(f"{where}: exercise {item!r}, expected {{ id = …, points = … }}")
    name = _take(item, "id", str, f"{where}: exercise")
    where = f"{where}: exercise {name}"
    _only(item, {"id", "points"}, where)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise UserError(f"{where}: the id is not lower_case_words")
    points = _take(item, "points", int, where)
    if isinstance(points, bool) or points < 1:
        raise UserError(f"{where}: points = {points!r}, expected a whole number of at least 1")
    return Exercise(name, points)


def _take(table: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    if key not in table:
        raise UserError(f"{where}: {key} is missing")
    if not isinstance(table[key], kind):
        raise UserError(f"{where}: {key} is {table[key]!r}, expected {_KINDS[kind]}")
    return table[key]


_KINDS = {str: "a string", int: "a whole number", list: "a list"}


def _path(value: Any, key: str, where: str) -> Path:
    if not isinstance(value, str) or Path(value).is_absolute() or ".." in Path(value).parts:
        raise UserError(f"{where}: {key} has {value!r}, expected a path inside the checkout")
    return Path(value)


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
