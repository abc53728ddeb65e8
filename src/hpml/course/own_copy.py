"""A learner's own copy of a shared, read-only installation.

What a learner writes is copied: notebooks, exercises, job scripts. All else is a link to the
installation, the environment and slurm/site.sh as well, so what is mended there is mended in all.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from hpml.errors import UserError
from hpml.paths import INSTALLED

COPIED = ("notebooks", "exercises", "slurm")
SHARED = Path("slurm", "site.sh")  # the site's settings, and so its owner's
MARK = Path("course.toml")  # a link to it marks a copy
_LEFT_OUT = {"build", "tests"}


def make(folder: Path, installed: Path = INSTALLED, environment: Path | None = None) -> int:
    """Make a copy of the course in `folder`, or add what a copy lacks. Returns how many files came.

    Nothing that is there is changed. `environment`: the Python environment (by default the one
    that runs). Raises UserError where `folder` is something else, or cannot be written.
    """
    folder = folder.expanduser().absolute()
    if folder.resolve().is_relative_to(installed):
        raise UserError(f"{folder} lies in the course that it would be a copy of: name another")
    try:
        if folder.exists() and not (folder / MARK).is_symlink() and any(folder.iterdir()):
            raise UserError(f"{folder} has something else in it: name a new folder")
        new = 0
        for path in _copied(installed):
            if not os.path.lexists(target := folder / path):
                target.parent.mkdir(parents=True, exist_ok=True)
                # Not copy2: the original may be read-only
                shutil.copyfile(installed / path, target)
                target.chmod(target.stat().st_mode | (installed / path).stat().st_mode & 0o111)
                new += 1
        for path, source in _linked(installed, environment or Path(sys.prefix)):
            if (link := folder / path).is_symlink() and link.readlink() != source:
                link.unlink()  # the installation has moved
            if not os.path.lexists(link):
                link.symlink_to(source)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror}") from None
    return new


def _copied(installed: Path) -> Iterator[Path]:
    for name in COPIED:
        for path in sorted((installed / name).rglob("*")):
            relative = path.relative_to(installed)
            hidden = any(part.startswith((".", "__")) for part in relative.parts)
            if path.is_file() and not hidden and relative != SHARED and ".mine-" not in path.name:
                yield relative


def _linked(installed: Path, environment: Path) -> Iterator[tuple[Path, Path]]:
    for path in sorted(installed.iterdir()):
        if path.name not in {*COPIED, *_LEFT_OUT} and not path.name.startswith("."):
            yield Path(path.name), path
    yield SHARED, installed / SHARED
    yield Path(".venv"), environment
