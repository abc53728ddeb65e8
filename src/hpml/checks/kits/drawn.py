"""Plays of an exercise whose inputs or expected values are made by code that answers it.

What is right, and what usual mistakes make of the same inputs, is then made in a module of the
exercise's name in the package `instructors` beside its check:

- `inputs(seed, world_size)` and `expect(inputs, world_size)`, as `Check` has them, of plain values,
  What usual mistakes give has the key MISTAKES, and what each possible choice costs BY_CHOICE:
  a message may say it of the answer's own,
- `pictured()`, likewise, if the exercise's picture needs more than that.

Judges read `run.inputs` and `run.expected`, and nothing else. No release holds such a package: it
has plays that were recorded when it was made. Grading draws new ones.
"""

import gzip
import importlib
import pickle
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from hpml.checks import seeds
from hpml.errors import UserError

RECORDED = 6  # plays of an exercise in a release
BY_CHOICE, MISTAKES = "by_choice", "mistakes"
_MODULES = Path(__file__).parents[2] / "modules"


def recordings() -> dict[str, bytes]:
    """Of all such exercises: the path of a release's recording, from this package, and its content.

    The same each time. Here only, not in a release.
    """
    return {path: plays.record() for path, plays in all_drawn().items()}


def all_drawn() -> dict[str, "Drawn"]:
    """The plays of all such exercises, by the paths of their recordings."""
    found = {}
    for file in sorted(_MODULES.glob("m[0-9][0-9]_*/checks/instructors/[!_]*.py")):
        checks = file.parents[1]
        plays = Drawn(f"hpml.modules.{checks.parent.name}.checks", file.stem)
        path = (checks / plays.file).relative_to(_MODULES.parent)
        found[path.as_posix()] = plays
    return found


@dataclass(frozen=True)
class _Recording:
    """What a release has of an exercise: plays as (inputs, expected), and what is pictured."""

    plays: list[tuple[Any, Any]]
    pictured: Any


@dataclass(frozen=True)
class Drawn:
    """The plays of `exercise`, whose check is in the package `checks`; on one rank."""

    checks: str
    exercise: str

    def inputs(self, seed: int, world_size: int) -> Any:
        """As `Check.inputs`."""
        if self._module is not None:
            return self._module.inputs(seed, world_size)
        plays = self._recording.plays
        return plays[seed % len(plays)][0]

    def expect(self, inputs: Any, world_size: int) -> Any:
        """As `Check.expect`, of what `inputs` returned."""
        if self._module is not None:
            return self._module.expect(inputs, world_size)
        for given, expected in self._recording.plays:
            if given is inputs:
                return expected
        raise LookupError(f"{self.exercise}: these inputs are of no recorded play")

    def pictured(self) -> Any:
        """What the exercise's picture shows beside an answer."""
        return self._recording.pictured if self._module is None else self._module.pictured()

    @property
    def file(self) -> str:
        """The name of a release's recording, beside the check."""
        return f"_plays_{self.exercise}.pickle.gz"

    def record(self) -> bytes:
        """That file's content."""
        module = self._module
        if module is None:
            raise UserError(f"{self.exercise}: a release cannot record plays")
        plays = []
        for number in range(RECORDED):
            inputs = module.inputs(seeds.derived(number, self.exercise), 1)
            plays.append((inputs, module.expect(inputs, 1)))
        pictured = module.pictured() if hasattr(module, "pictured") else None
        return gzip.compress(pickle.dumps((plays, pictured)), mtime=0)

    @cached_property
    def _module(self) -> ModuleType | None:
        name = f"{self.checks}.instructors"
        try:
            return importlib.import_module(f"{name}.{self.exercise}")
        except ModuleNotFoundError as error:
            if error.name != name:  # something that the module imports
                raise
            return None

    @cached_property
    def _recording(self) -> _Recording:
        try:
            data = (files(self.checks) / self.file).read_bytes()
        except OSError as error:
            raise UserError(f"{self.file}: {error.strerror}: unpack the release again") from None
        return _Recording(*pickle.loads(gzip.decompress(data)))
