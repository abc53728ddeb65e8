"""The skeleton of an exercise; `./hpml course check` then names what is to be filled in.

Its cells in the module's solutions, its check, its test, the file of its wrong answers, and its
line in course.toml. Either all of it is written or nothing.
"""

import keyword
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import nbformat

from hpml.course import schedule
from hpml.course.instructors import build, paired, where_next, wrong_answers
from hpml.course.schedule import Course, Module
from hpml.errors import UserError

CELLS = '''
# %% [markdown]
# ## `{id}`: what it is about
#
# What goes in, what comes out, and a question to think about first.

# %%
# %%answer {id}
def {id}():
    """What goes in, what comes out."""
    ### BEGIN SOLUTION
    raise NotImplementedError()
    ### END SOLUTION


# %%
check("{id}")
'''

CHECK = '''"""{id}: what the learner writes, in a line.

`{id}()`, called on each rank.
"""

from types import ModuleType
from typing import Any

from hpml.checks.contract import Check


def inputs(seed: int, world_size: int) -> list[Any]:
    """What each rank is given, fresh for every seed."""
    return [None] * world_size


def drive(answer: ModuleType, given: Any) -> Any:
    return answer.{id}()


def expect(given: list[Any], world_size: int) -> Any:
    """What should come out, by single-process mathematics."""
    return None


CHECK = Check(
    id="{id}",
    title="{id}",
    names=("{id}",),
    to_write="",  # "the sum of all ranks' numbers": with the next, a line of the exercise's text
    allowed="",  # "any call of `torch.distributed`"
    not_allowed=(),  # what is ready-made of it: see hpml/checks/kits/ready_made.py
    inputs=inputs,
    drive=drive,
    expect=expect,
    claims=(),  # Claim("what holds, as a sentence", 2, judge): see hpml/checks/contract.py
    hints={{"start": ""}},
)
'''

TEST = '''"""The check of {id}: what its judges make of right and wrong values."""

from hpml.modules.{folder}.checks.{id} import CHECK


def test_inputs_are_fresh_for_every_seed():
    assert CHECK.inputs(1, 4) != CHECK.inputs(2, 4)
'''

WRONG = """# Wrong answers to {id}, as edits of its solution: hpml.course.instructors.wrong_answers
#
# [name_of_the_mistake]
# wrong = "what people do there"
# hint = "key of the hint that the first claim to fail must give"
# old = 'a text that stands once in the solution'
# new = 'what stands there instead'
"""


def create(course: Course, module: Module, exercise: str) -> list[Path]:
    """Write the skeleton into the course; returns the new or changed files, relative to its root.

    Raises UserError, with no file changed, if the id is invalid or taken, or if the module's files
    cannot be read.
    """
    files = _new_files(module, exercise)
    _refuse(course, exercise, files)
    script, listed = module.solution.with_suffix(".py"), Path("course.toml")
    stub = module.exercise_notebook
    changed = (listed, script, module.solution, stub, stub.with_suffix(".py"))
    with all_or_nothing(course.root, (*files, *changed)):
        for path, text in files.items():
            _write(course.root / path, text)
        toml = (course.root / listed).read_text(encoding="utf-8")
        _write(course.root / listed, _with_line(toml, module, exercise))
        course = schedule.load(course.root / listed)
        module = course.module(module.id)
        source = (course.root / script).read_text(encoding="utf-8")
        _write(course.root / script, _with_cells(source, exercise))
        _write(course.root / module.solution, _solution_notebook(course, module))
        for path, text in build.exercise_files(course, module).items():
            _write(course.root / path, text)
    return [*files, *changed]


def _new_files(module: Module, exercise: str) -> dict[Path, str]:
    folder = f"m{module.stem}"
    texts = {
        Path("src/hpml/modules", folder, "checks", f"{exercise}.py"): CHECK,
        Path("tests/modules", folder, "checks", f"test_{exercise}.py"): TEST,
        wrong_answers.path(module, exercise): WRONG,
    }
    return {path: text.format(id=exercise, folder=folder) for path, text in texts.items()}


def _refuse(course: Course, exercise: str, files: Mapping[Path, str]) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", exercise) or keyword.iskeyword(exercise):
        raise UserError(f"exercise {exercise!r}: an id is lower_case_words, and no word of Python")
    for module in course.modules:
        if any(entry.id == exercise for entry in module.exercises):
            raise UserError(f"exercise {exercise!r} is there already, in module {module.id}")
    checks = course.root.glob(f"src/hpml/modules/m[0-9][0-9]_*/checks/{exercise}.py")
    there = [path.relative_to(course.root) for path in checks]
    there += [path for path in files if (course.root / path).exists()]
    if there:
        raise UserError(f"{there[0]} is there already: choose another id, or remove it")


def _with_line(toml: str, module: Module, exercise: str) -> str:
    """course.toml with the exercise added as the last of its module."""
    block = re.search(
        rf'^id = "{module.id}"$(?:(?!^\[\[).*\n)*?exercises = \[(?P<listed>[^\]]*)\]', toml, re.M
    )
    if block is None:
        raise UserError(f"course.toml: module {module.id} has no line `exercises = [`: write one")
    listed = block["listed"].strip().removesuffix(",")
    lines = "    " + listed + ",\n" if listed else ""
    line = f'    {{ id = "{exercise}", minutes = 10 }},\n'
    return toml[: block.start("listed")] + "\n" + lines + line + toml[block.end("listed") :]


def _with_cells(script: str, exercise: str) -> str:
    """The solutions' script with the exercise's cells, before the links that it may end with."""
    above, heading, links = script.partition(where_next.IN_SCRIPT)
    cells = above.rstrip("\n") + "\n" + CELLS.format(id=exercise)
    return f"{cells}\n{heading}{links}" if heading else cells


def _solution_notebook(course: Course, module: Module) -> str:
    """The .ipynb of the extended script, with the outputs of the committed one."""
    made = build.source_notebook(course, module, module.solution)
    old = nbformat.read(course.root / module.solution, as_version=nbformat.NO_CONVERT)
    for new, cell in zip(made.cells, old.cells, strict=False):
        if new.cell_type == "code" and new.source == cell.source:
            new.outputs, new.execution_count = cell.outputs, cell.execution_count
    return paired.text_of(made)


@contextmanager
def all_or_nothing(root: Path, paths: tuple[Path, ...]) -> Iterator[None]:
    """Restore these files if the body raises."""
    before = {root / path: _bytes(root / path) for path in paths}
    try:
        yield
    except BaseException as error:
        for path, data in before.items():
            if data is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(data)
        if isinstance(error, OSError):
            what = "restore it, or mend its permissions"
            raise UserError(f"{error.filename}: {error.strerror}: {what}") from None
        raise


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    paired.write(path, text)
