"""Fixtures of all tests. How a run is made of them is in `suite/`."""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from hpml.paths import CHECKOUT

from .suite import plugin

# A shell that starts a job in the background has it ignore Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A check started by a test leaves no server behind; tests/cli/test_hand_over.py has its own
os.environ["HPML_SERVER"] = "off"

# How long an example takes, and to make one, depends on how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

LONGEST_ID = 2000  # characters


def pytest_addoption(parser: pytest.Parser) -> None:
    plugin.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    plugin.configure(config)


@pytest.fixture
def in_turn(request) -> Callable[[str, Mapping[str, str]], list[str]]:
    """`in_turn(kind, keys by name)`: the names that this run plays, and this test passes with."""
    turns = request.config.pluginmanager.get_plugin("hpml turns")
    return partial(turns.choose, request)


@pytest.fixture
def key_of(request) -> Callable[..., str]:
    """`key_of(files, *texts)`: a hash of all that a verdict rests on, for `in_turn`."""
    return request.config.pluginmanager.get_plugin("hpml turns").graph.key


@pytest.fixture(scope="session")
def horovod_over_mpi(needs) -> None:
    """The test is skipped where mpirun starts no ranks of Horovod."""
    from hpml.horovod import state

    needs("mpirun")
    known = state.read()
    if known.works and "MPI" not in known.transports:
        pytest.skip("Horovod was built before MPI was installed: ./hpml horovod builds it anew")


@pytest.fixture(scope="session")
def sandboxed() -> None:
    """The test is skipped where there can be no sandbox for answers."""
    from hpml.grading import sandbox

    if why := sandbox.missing():
        pytest.skip(why)


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A folder that is on no tmpfs, which keeps all pages: `tmp_path`, or one in the checkout."""
    if not _keeps_pages(tmp_path):
        yield tmp_path
    elif not _keeps_pages(CHECKOUT):
        (CHECKOUT / "build").mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CHECKOUT / "build") as folder:
            yield Path(folder)
    else:
        pytest.skip(
            "folder of the tests and checkout are both on a tmpfs: no disk in this hardware"
        )


def _keeps_pages(folder: Path) -> bool:
    ended = subprocess.run(["stat", "-fc", "%T", folder], capture_output=True, text=True)
    return ended.stdout.strip() in ("tmpfs", "ramfs")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A short name for a parameter of megabytes: each message about its test would carry them."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None
