"""The folder that a cluster keeps all its files in."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hpml.cluster.shape import Shape
from hpml.cluster.subnet import Subnet
from hpml.errors import UserError
from hpml.paths import home

LONGEST_PATH = 107 - len("/munge/socket")  # sun_path of unix(7)


@dataclass(frozen=True)
class Folder:
    """Where the files of a cluster are. The folder exists from `up` to `down`."""

    path: Path

    @property
    def slurm_conf(self) -> Path:
        return self.path / "slurm.conf"

    @property
    def hosts(self) -> Path:
        return self.path / "hosts"

    @property
    def munge(self) -> Path:
        return self.path / "munge"

    @property
    def jobs(self) -> Path:
        """One line for each job that ended."""
        return self.path / "jobs.txt"

    @property
    def ready(self) -> Path:
        """Exists once all nodes have been ready."""
        return self.path / "ready"

    @property
    def failed(self) -> Path:
        """Why the cluster could not be brought up; its logs were kept."""
        return self.path / "failed"

    def log(self, name: str) -> Path:
        return self.path / "log" / f"{name}.log"

    def pid_file(self, name: str) -> Path:
        """The file with the pid of the process of that name: see hpml.cluster.process."""
        return self.path / "processes" / name

    def make(self, shape: Shape, subnet: Subnet) -> None:
        """Make the folder, with the plan of the cluster in it."""
        for part in ("log", "processes", "munge", "slurmctld"):
            (self.path / part).mkdir(parents=True)
        plan = {**shape.record(), "subnet": str(subnet)}
        (self.path / "cluster.json").write_text(json.dumps(plan, indent=1) + "\n")

    def plan(self) -> tuple[Shape, Subnet]:
        """The planned shape and network. Raises UserError where the plan is incomplete."""
        try:
            plan = json.loads((self.path / "cluster.json").read_text())
            subnet = Subnet(plan.pop("subnet"))
            return Shape(**plan), subnet
        except (OSError, ValueError, TypeError, KeyError):
            raise UserError(
                f"{self.path} is what is left of a cluster: ./hpml cluster down removes it"
            ) from None


def folder() -> Folder:
    try:
        found = home() / "cluster"
        found.exists()
    except PermissionError as error:
        raise UserError(
            f"{error.filename} is not yours to use: set HPML_HOME to a folder that is"
        ) from None
    return Folder(found)


def folder_to_remove() -> Folder:
    """What `down` renames the folder to first, so that nothing that still starts finds it."""
    return Folder(home() / "cluster.down")


def running_folder() -> Folder:
    """The folder of the cluster that is up, or half-way. Raises UserError where there is none."""
    found = folder()
    if not found.path.exists():
        raise UserError("no cluster is up here: ./hpml cluster up makes one")
    return found


@contextmanager
def locked(what: str) -> Iterator[None]:
    """One `up` or `down` at a time. Raises UserError where another one runs."""
    import fcntl

    descriptor = os.open(home(), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(
            f"{what}: another ./hpml cluster up or down is at work here: wait for it to end"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)
