"""A notebook or script as it was handed out, or one answer in it; what it has become is kept.

A release has a copy of each file in HANDED_OUT. A checkout has git for files, and solutions for
the stubs in them; a copy of it (hpml.course.own_copy) has the files of the checkout.
"""

import io
import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hpml.answer import Answer, cells, exercise_of, read
from hpml.course import own_answers, reference
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.files import atomic
from hpml.paths import INSTALLED

HANDED_OUT = Path(__file__).with_name("handed_out.zip")
_SOLUTION = re.compile(
    r"^([ \t]*)### BEGIN SOLUTION.*?### END SOLUTION[ \t]*$", re.MULTILINE | re.DOTALL
)


def archive(files: Mapping[str, bytes]) -> bytes:
    """The content of HANDED_OUT, from files by their paths; the same files give the same bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, data in sorted(files.items()):
            packed.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)  # dated 1980
    return made.getvalue()


def restore(path: Path, root: Path, originals: Path = HANDED_OUT) -> Path | None:
    """Put the file back as it was handed out. Returns where the learner's own is now; None if there
    was none, or it was unchanged.

    `path` is a file's, also one that is gone, in the course's folder `root`. UserError if it was
    not handed out, or `originals` is not there.
    """
    name = _name(path, root)
    data = _original(name, originals, root)
    target, kept = root / name, None
    if target.exists():
        if target.read_bytes() == data:
            return None
        kept = _free(target)
        target.rename(kept)
    target.parent.mkdir(exist_ok=True)
    atomic.write_bytes(target, data)
    return kept


def _original(name: str, originals: Path, root: Path) -> bytes:
    if not originals.is_file() and root.resolve() != INSTALLED and (INSTALLED / name).is_file():
        return (INSTALLED / name).read_bytes()
    try:
        with zipfile.ZipFile(originals) as packed:
            return packed.read(name)
    except FileNotFoundError:
        raise UserError(f"this is not a release but a checkout: git restore {name}") from None
    except KeyError:
        raise UserError(
            f"{name} was not handed out: name a file of notebooks/ or exercises/"
        ) from None
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{originals.name} cannot be read ({error}): unpack the course") from None


def stub_again(course: Course, exercise: str, originals: Path = HANDED_OUT) -> str:
    """Put an exercise's stub back into its notebook and its script, and say so in a sentence.

    An answer that was there is kept beside them, in a script of its own.
    """
    stub = _stub(course, exercise, originals)
    there = [
        answer
        for path in own_answers.files(course, exercise)
        for answer in read(path)
        if answer.exercise == exercise
    ]
    if not there:
        first = own_answers.files(course, exercise)[0]
        raise UserError(f"no cell of {first.name} starts with %%answer {exercise}: restore {first}")
    changed = [answer for answer in there if answer.source.strip() != stub.strip()]
    if not changed:
        return f"{exercise} is as it was handed out"
    kept: list[str] = []
    for text in dict.fromkeys(answer.source for answer in changed):
        beside = _free(changed[0].file.with_name(f"{exercise}.py"))
        atomic.write_text(beside, f"# %%\n# {text}")
        kept.append(str(beside))
    for answer in changed:  # the notebook first: jupytext wants the script to be the newer one
        replaced = _in_notebook if answer.file.suffix == ".ipynb" else _in_script
        atomic.write_text(answer.file, replaced(answer, stub))
    where = " and ".join(str(answer.file) for answer in changed)
    return f"{exercise} is as it was handed out in {where}; yours is {', '.join(kept)}"


def _stub(course: Course, exercise: str, originals: Path) -> str:
    """An answer cell's text as it was handed out."""
    if not originals.is_file():
        source = reference.answer(course, exercise).source
        return _SOLUTION.sub(r"\1# YOUR CODE HERE\n\1raise NotImplementedError()", source)
    name = course.module_of(exercise).exercise_notebook.with_suffix(".py").as_posix()
    found = cells.of_script(_original(name, originals, course.root))
    return next(cell.source for cell in found if exercise_of(cell.source) == exercise)


def _in_notebook(answer: Answer, stub: str) -> str:
    """The notebook's text with the stub in place of the answer; all else is as it was."""
    notebook = json.loads(answer.file.read_bytes())
    cell = notebook["cells"][answer.cell - 1]
    cell |= {"source": stub.strip().splitlines(keepends=True), "outputs": []}
    cell["execution_count"] = None
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _in_script(answer: Answer, stub: str) -> str:
    """The script's text with the stub in place of the answer."""
    lines = answer.file.read_bytes().decode().splitlines(keepends=True)
    begin = (answer.first_line or 1) - 1
    end = begin + len(answer.source.splitlines())
    return "".join([*lines[:begin], f"# {stub.strip()}\n", *lines[end:]])


def _name(path: Path, root: Path) -> str:
    """The path in the course, also where it was typed from the course's folder but elsewhere."""
    for whole in (path.absolute(), root / path):
        if whole.resolve().is_relative_to(root.resolve()):
            return whole.resolve().relative_to(root.resolve()).as_posix()
    raise UserError(f"{path} is not in the course's folder")


def _free(target: Path) -> Path:
    """A name beside it that nothing has: 01_parallel_sgd.mine-1.ipynb."""
    number = 1
    while (free := target.with_name(f"{target.stem}.mine-{number}{target.suffix}")).exists():
        number += 1
    return free
