"""The existing checks: the files in `modules/mNN_*/checks/` that define CHECK, found by name."""

import difflib
import importlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hpml.errors import UserError

if TYPE_CHECKING:  # it imports torch
    from hpml.checks.contract import Check

# What drives use of these is sent to the ranks with them: none of it is there to be imported
BY_VALUE = ("hpml.checks", "hpml.allreduce")  # and the checks of its module
_MODULES = Path(__file__).parents[1] / "modules"


@cache
def _files() -> dict[str, str]:
    """Module name by exercise id. A file starting with an underscore is not a check."""
    found: dict[str, str] = {}
    for file in sorted(_MODULES.glob("m[0-9][0-9]_*/checks/*.py")):
        if file.stem.startswith("_"):
            continue
        if file.stem in found:
            raise UserError(f"two checks have the id {file.stem}: rename one of the files")
        found[file.stem] = f"hpml.modules.{file.parts[-3]}.checks.{file.stem}"
    return found


def ids() -> tuple[str, ...]:
    """The ids of all exercises, in the order of the modules."""
    return tuple(_files())


def modules() -> tuple[str, ...]:
    """The names of the modules that have checks, like their notebooks' names: `06_ring`."""
    return tuple(dict.fromkeys(name.split(".")[2].removeprefix("m") for name in _files().values()))


def of_module(name: str) -> tuple[str, ...]:
    """The ids of a module's exercises, by the name of its notebook; none for an unknown name."""
    return tuple(e for e, module in _files().items() if module.split(".")[2] == f"m{name}")


def module_of(exercise: str) -> str:
    """The dotted name of the module with an exercise's check, which this does not import.

    Raises UserError for an unknown id, with the nearest one.
    """
    files = _files()
    if exercise not in files:
        near = difflib.get_close_matches(exercise, files, n=1)
        meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(files)}"
        raise UserError(f"no exercise has the id {exercise!r}: {meant}")
    return files[exercise]


@cache
def find(exercise: str) -> "Check":
    """The check of an exercise. Raises UserError for an unknown id, with the nearest one."""
    module = module_of(exercise)
    import cloudpickle

    for package in (*BY_VALUE, module.rpartition(".")[0]):
        cloudpickle.register_pickle_by_value(importlib.import_module(package))
    check = importlib.import_module(module).CHECK
    if check.id != exercise:
        raise UserError(f"{module} defines the check {check.id!r}: name file and id alike")
    return check
