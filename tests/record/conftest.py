"""A record of this machine, made once by a Python that has torch and numpy and nothing else."""

import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hpml.paths import CHECKOUT


@dataclass(frozen=True)
class Bare:
    """A Python with torch and numpy alone, and the course's source tree."""

    site: Path
    home: Path

    def record(self, *options: str, limit: float = 600) -> subprocess.CompletedProcess:
        """`python -m hpml.record OPTIONS`, in a folder that has nothing of the course."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HPML_HOME": str(self.home),
            "PYTHONPATH": f"{CHECKOUT / 'src'}:{self.site}",
            "OMP_NUM_THREADS": "1",
        }
        # -S: without the packages of this environment
        return subprocess.run(
            [sys.executable, "-S", "-m", "hpml.record", *options],
            env=environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=limit,
        )


@pytest.fixture(scope="session")
def bare(tmp_path_factory) -> Bare:
    site = tmp_path_factory.mktemp("bare")
    wanted, seen = ["torch", "numpy"], set()
    while wanted:
        name = canonicalize_name(wanted.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another system
            continue
        for line in package.requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                wanted.append(requirement.name)
        for top in {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(package.locate_file(top))).resolve())
    return Bare(site, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def recording(bare, tmp_path_factory) -> tuple[Path, str]:
    """The folder of a whole record of this machine's processor, and what was printed."""
    folder = tmp_path_factory.mktemp("recorded")
    ended = bare.record("--out", str(folder), "--device", "cpu", "--limit", "1500", limit=1600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder, ended.stdout
