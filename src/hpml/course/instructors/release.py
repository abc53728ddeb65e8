"""What a learner gets: the course without solutions, wrong answers and authoring tools.

A class that is graded gets no solutions. Learners on their own may have them.

The exercises are generated from the solutions again, so that edits in exercises/ are not released.
Lectures come without outputs: those answer the predictions, and JupyterLab would not trust them, so
that a verdict would lose its style. A notebook without outputs is trusted once it is saved.
All other files are listed explicitly. Folder and archive hold the same files, and the same course
gives the same bytes.
"""

import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from hpml.checks.kits.drawn import recordings
from hpml.course import restore
from hpml.course.instructors import paired
from hpml.course.instructors.build import exercise_files, source_notebook
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.files import atomic
from hpml.paths import CHECKOUT

NAME = "hpml"  # of the folder, and of the archive
_MARKER = ".hpml-release"  # marks a folder that a release was written to
_BY_NAME = (
    ".gitignore",
    "LICENSE",
    "LICENSE-TEXTS",
    "course.toml",
    "environment.yml",
    "hpml",
    "jupytext.toml",
    "pyproject.toml",
    "requirements.lock",
    "slurm/record_gpu.slurm",  # of no module
    "slurm/ssh_by_srun/ssh",  # a name without an ending
)
_ENDINGS = {
    "slurm": (".sh", ".py"),  # and the modules' jobs
    "src/hpml": (
        *(".py", ".json", ".j2", ".css", ".patch"),  # code, and what it reads
        *(".csv", ".gz", ".js", ".html", ".png"),  # hardware, traces, TensorBoard's page
    ),
    "packages": (".py", ".whl"),
}
# Folders of src/hpml/ with code that grades, benchmarks graders, makes exercises from solutions, or
# knows what is right: of that, plays are recorded
LEFT_OUT = ("grading", "instructors")
_TO_RESTORE = ("notebooks/", "exercises/")
# README.md: text between these marks is not for learners, nor are lines with these commands; and
# what a comment hides elsewhere is for them alone.
_ASIDE = re.compile(r"<!-- not in a release -->.*?<!-- in a release again -->", re.DOTALL)
_LEARNERS = re.compile(r"\s*<!-- only in a release\n(.*?)\s*-->\n", re.DOTALL)
_COMMAND = re.compile(r"^ *\./hpml (?:build|course|grade|release|test)\b.*\n", re.MULTILINE)


@dataclass(frozen=True)
class File:
    """A file of a release."""

    data: bytes
    executable: bool = False


def files(course: Course, answers: bool = False) -> dict[str, File]:
    """Every file of a release by its path, sorted. Raises UserError if one cannot be made.

    With `answers`, for learners on their own, solutions are there as scripts, for ./hpml answer.
    """
    made = {path: _file(course.root / path) for path in _BY_NAME}
    readme = _ASIDE.sub("", _file(course.root / "README.md").data.decode())
    made["README.md"] = File(_COMMAND.sub("", _LEARNERS.sub(r"\n\1\n", readme)).encode())
    for link in re.findall(r"\]\((docs/[^)#]+)\)", made["README.md"].data.decode()):
        made[link] = _file(course.root / link)
    for module in course.modules:
        for path in module.jobs:
            made[path.as_posix()] = _file(course.root / path)
        lecture = source_notebook(course, module, module.notebook)
        made[module.notebook.as_posix()] = File(paired.text_of(lecture).encode())
        # With its links too: JupyterLab takes the cells that it shows from the script.
        script = module.notebook.with_suffix(".py").as_posix()
        made[script] = File(paired.script_of(lecture).encode())
        for path, text in exercise_files(course, module).items():
            made[path.as_posix()] = File(text.encode())
        if answers:
            answered = module.solution.with_suffix(".py")
            made[answered.as_posix()] = _file(course.root / answered)
    handed_out = {p: file.data for p, file in made.items() if p.startswith(_TO_RESTORE)}
    made[f"src/hpml/course/{restore.HANDED_OUT.name}"] = File(restore.archive(handed_out))
    for folder, endings in _ENDINGS.items():
        for path in (course.root / folder).rglob("*"):
            inside = path.relative_to(course.root / folder).as_posix()
            left_out = any(part in LEFT_OUT for part in inside.split("/")[:-1])
            if path.suffix not in endings or path.name.startswith(".") or left_out:
                continue
            made[f"{folder}/{inside}"] = _file(path)
    made |= {f"src/hpml/{path}": File(data) for path, data in recordings().items()}
    return dict(sorted(made.items()))


def _file(path: Path) -> File:
    try:
        return File(path.read_bytes(), executable=bool(path.stat().st_mode & 0o100))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: restore it from the repository") from None


def write(made: dict[str, File], out: Path) -> tuple[Path, Path]:
    """Write a release to OUT/hpml/ and OUT/hpml.zip; an earlier one is replaced.

    Raises UserError if OUT has files but no release, or cannot be written.
    """
    folder, archive = out / NAME, out / f"{NAME}.zip"
    try:
        if out.exists() and not out.is_dir():
            raise UserError(f"--out {out} is a file: name a folder")
        if out.is_dir() and any(out.iterdir()) and not (out / _MARKER).exists():
            raise UserError(f"--out {out} has files in it but no release: name a new folder")
        out.mkdir(parents=True, exist_ok=True)
        (out / _MARKER).touch()
        archive.unlink(missing_ok=True)
        if folder.exists():
            shutil.rmtree(folder)
        for name, file in made.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
            path.chmod(_mode(file))
        _write_archive(made, archive)
    except OSError as error:
        raise UserError(f"--out {out}: {error.strerror}: name a folder to write to") from None
    return folder, archive


def date_of(checkout: Path) -> tuple[int, int, int, int, int, int]:
    """When its last commit was made: the same course gives the same bytes. 1980 without git."""
    shown = ("log", "-1", "--format=%cd", "--date=format:%Y %m %d %H %M %S")
    try:
        told = subprocess.run(["git", "-C", str(checkout), *shown], capture_output=True, text=True)
    except OSError:
        told = None
    if told is None or told.returncode:
        return (1980, 1, 1, 0, 0, 0)
    year, month, day, hour, minute, second = map(int, told.stdout.split())
    return (year, month, day, hour, minute, second)


def _write_archive(made: dict[str, File], path: Path) -> None:
    dated = date_of(CHECKOUT)
    with (
        atomic.replacing(path) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
    ):
        for name, file in made.items():
            entry = zipfile.ZipInfo(f"{NAME}/{name}", dated)
            entry.create_system = 3  # Unix: the file mode is kept
            entry.external_attr = (0o100000 | _mode(file)) << 16
            archive.writestr(entry, file.data, zipfile.ZIP_DEFLATED)


def _mode(file: File) -> int:
    return 0o755 if file.executable else 0o644
