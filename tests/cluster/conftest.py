"""A real cluster for the tests that want one: brought up once, for all of them. Takes root."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from hpml.cluster import needs
from hpml.data import synthetic
from hpml.data.cifar10 import BINARY
from hpml.errors import UserError
from hpml.paths import CHECKOUT

from ..waiting import until

UNFINISHED = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED"}


@dataclass(frozen=True)
class Cluster:
    """A cluster of its own HPML_HOME, used by the command line, as a person does."""

    home: Path

    def environment(self) -> dict[str, str]:
        """As in a shell in which this Python's environment is active."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_"))}
        return {
            **kept,
            "PATH": path,
            "VIRTUAL_ENV": sys.prefix,
            "PYTHONPATH": str(CHECKOUT / "src"),
            "HPML_HOME": str(self.home),
            "COLUMNS": "200",
        }

    def hpml(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """./hpml with these words."""
        return self._run([sys.executable, "-m", "hpml", *words], self.environment(), timeout)

    def run(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """A command in a shell in which `eval "$(./hpml cluster env)"` was typed."""
        return self._run(list(words), {**self.environment(), **self.env()}, timeout)

    @cache  # noqa: B019 - as long as the tests
    def env(self) -> dict[str, str]:
        """What ./hpml cluster env exports."""
        done = self.hpml("cluster", "env")
        assert done.returncode == 0, done.stderr
        exports = [shlex.split(line) for line in done.stdout.splitlines()]
        assert {word for word, _ in exports} == {"export"}
        return dict(setting.split("=", 1) for _, setting in exports)

    def output(self, *words: str, timeout: float = 120) -> list[str]:
        """The lines that a command prints; it must succeed."""
        ended = self.run(*words, timeout=timeout)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.splitlines()

    def submit(self, *words: str) -> str:
        """The number of the job that sbatch makes of these words, in the project's folder."""
        return self.output("sbatch", "--parsable", f"--chdir={self.project()}", *words)[0]

    def job(self, number: str) -> dict[str, str]:
        """What scontrol shows of a job, by field."""
        (line,) = self.output("scontrol", "--oneliner", "show", "job", number)
        return dict(re.findall(r"(\w+)=(\S*)", line))

    def end_of(self, number: str) -> str:
        """The state of a job that has ended on all of its nodes."""
        state = until(lambda: {self.job(number)["JobState"]} - UNFINISHED, f"job {number}")
        return state.pop()

    def log_of(self, number: str) -> str:
        """What a job has written so far."""
        path = Path(self.job(number)["StdOut"])
        return path.read_text() if path.exists() else ""

    def project(self) -> Path:
        """A folder to submit the course's job scripts from: they leave their files there.

        With images, made once for all clusters: a job's ranks would each make them for the first.
        """
        folder = self.home / "project"
        if not folder.exists():
            images = self.home.parent / "images"
            if not images.exists():
                images.mkdir()
                synthetic.write(images)
            there = self.home / "data" / "synthetic" / BINARY
            if not there.exists():  # a job may have made its own
                shutil.copytree(images, there, copy_function=os.link)
            folder.mkdir()
            (folder / "slurm").symlink_to(CHECKOUT / "slurm")
        return folder

    def pid(self, name: str) -> int:
        """Of a process of the cluster, as this machine numbers it."""
        return int((self.folder / "processes" / name).read_text().split()[0])

    @property
    def folder(self) -> Path:
        return self.home / "cluster"

    def _run(
        self, words: list[str], environment: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )


def _here(home: Path) -> Cluster:
    try:
        needs.need_programs()
    except UserError as error:
        pytest.skip(str(error))
    if os.geteuid() != 0:
        pytest.skip("a virtual cluster takes root")
    return Cluster(home)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """All that take a cluster share one worker: two at once would share the checkout's jobs too."""
    for item in items:
        if {"cluster", "breaking", "spare"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group("cluster"))


@contextlib.contextmanager
def _up(home: Path, *words: str) -> Iterator[Cluster]:
    cluster = _here(home)
    up = cluster.hpml("cluster", "up", *words)
    try:
        assert up.returncode == 0, up.stderr
        yield cluster
    finally:
        cluster.hpml("cluster", "down")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Four nodes of 32 declared CPUs behind links of 1 Gbit/s, as `up` makes them."""
    with _up(tmp_path_factory.mktemp("hpml")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def breaking(tmp_path_factory):
    """Six nodes of one CPU, for tests that kill some: two of them must be left at the end."""
    with _up(tmp_path_factory.mktemp("hpml"), "--nodes=6", "--cpus=1") as cluster:
        yield cluster


@pytest.fixture
def spare(tmp_path):
    """A cluster that is not up, for a test that brings one up and breaks it."""
    cluster = _here(tmp_path)
    yield cluster
    cluster.hpml("cluster", "down")
