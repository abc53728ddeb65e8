"""A course in a folder that is run with nbgrader's own commands: source, submitted, gradebook."""

import csv
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import nbformat
from nbformat import NotebookNode

import hpml
from hpml.course.instructors.build import kernel_environment
from hpml.errors import UserError

CELL_TIMEOUT = 3600  # seconds; nbgrader's own is 30
COMMAND_TIMEOUT = 2 * CELL_TIMEOUT


class NbgraderCourse:
    """Files where nbgrader looks for them, below `folder`, and its commands.

    Creates the folder. The user's own Jupyter settings have no effect.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "home").mkdir(parents=True)
        config = f"get_config().ExecutePreprocessor.timeout = {CELL_TIMEOUT}\n"
        (folder / "nbgrader_config.py").write_text(config)

    @property
    def submitted(self) -> Path:
        return self.folder / "submitted"

    def write(self, notebook: NotebookNode, *place: str) -> Path:
        """Write a notebook below the folder; its path."""
        path = self.folder.joinpath(*place)
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
        return path

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """`nbgrader WORDS…` in the folder. Raises UserError where it fails and `check` is true."""
        ended = subprocess.run(
            [sys.executable, "-m", "nbgrader", *words],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
        )
        if check and ended.returncode:
            said = (ended.stdout + ended.stderr).strip().splitlines()[-12:]
            raise UserError(f"nbgrader {' '.join(words)} failed:\n" + "\n".join(said))
        return ended

    def marks(self) -> dict[str, tuple[float, float]]:
        """Score and highest possible score of each person, as `nbgrader export` has them."""
        self.run("export", "--to", "marks.csv")
        with open(self.folder / "marks.csv", newline="") as file:
            return {
                row["student_id"]: (float(row["score"]), float(row["max_score"]))
                for row in csv.DictReader(file)
            }

    def _environment(self) -> dict[str, str]:
        own = self.folder / "home"
        # nbgrader calls `alembic` by its name.
        scripts = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
        package = os.pathsep.join(
            [str(Path(hpml.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        )
        jupyter = {
            f"JUPYTER_{kind}_DIR": str(own / kind.lower()) for kind in ("CONFIG", "DATA", "RUNTIME")
        }
        return {
            **kernel_environment(os.environ, own),
            **jupyter,
            "PATH": scripts,
            "PYTHONPATH": package.rstrip(os.pathsep),
        }
