"""What a machine lacks is skipped by name for a learner, and is a failure where CI=true.

`.ci/run` installs whatever can be installed, so that there only hardware may be missing. The last
lines of a run name what was not tested, and how to get what that takes.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from hpml.paths import CHECKOUT

# A shell that starts a job in the background has it ignore Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A check started by a test leaves no server behind; tests/cli/test_hand_over.py has its own
os.environ["HPML_SERVER"] = "off"

# How long an example takes, and to make one, depends on how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

IN_CI = os.environ.get("CI") == "true"
HARDWARE = ("GPU", "processor")  # a reason to skip in CI must name one of these

LONGEST_ID = 2000  # characters

# What takes longest begins first: else one worker is left with it when the others are done. Groups
# of pytest-xdist and files; the cluster mostly waits, so it goes beside what computes.
FIRST = (
    "cluster",
    "tests/test_notebooks.py",
    "horovod",
    "tests/test_course.py",
    "tests/grading/test_attacks.py",
    "tests/grading/test_honest.py",
    "tests/cli/test_grade.py",
    "tests/test_grading_page.py",
    "tests/grading/test_nbgrader.py",
    "tests/frameworks/",
)


def remedy(program: str) -> str:
    """How to get a program: `apt install` the package that .ci/run knows it to be in, or ""."""
    package = re.search(
        rf"^  {re.escape(program)}: (\S+)$", (CHECKOUT / ".ci/run").read_text(), re.M
    )
    return f": apt install {package[1]}" if package else ""


@pytest.fixture(scope="session")
def needs() -> Callable[[str], str]:
    """`needs("shellcheck")` is the program's path; the test is skipped where it is not there."""

    def path_of(program: str) -> str:
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is not installed{remedy(program)}")
        return path

    return path_of


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """For workers: what shares a file's fixture shares a worker, and the longest begin first."""
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=_turn)


def _shares_a_fixture(item) -> bool:
    """Whether a fixture of the test is made once for its file, and not for each test."""
    fixtures = getattr(item, "_fixtureinfo", None)
    defined = fixtures.name2fixturedefs.values() if fixtures else ()
    return any(last.scope == "module" for *_, last in defined)


def _turn(item) -> int:
    """The place in FIRST of what a test belongs to."""
    names = [mark.args[0] for mark in item.iter_markers("xdist_group")]
    for place, first in enumerate(FIRST):
        if first in names or item.nodeid.startswith(first):
            return place
    return len(FIRST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _held_to_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _held_to_ci((yield))


def _held_to_ci(report):
    """The report, but a failure where it is of a skip that CI does not allow."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = _reason(report)
        if not any(word in reason for word in HARDWARE):
            report.outcome = "failed"
            report.longrepr = f"{reason}: no reason in CI, .ci/run has to install what is missing"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test, or a whole file, was skipped."""
    said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return said.removeprefix("Skipped: ")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # what comes after the yield is printed last of all
def pytest_sessionfinish(session: pytest.Session):
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker of pytest-xdist
        return
    for line in not_tested(reporter.stats.get("skipped", ())):
        reporter.write_line(line, yellow=True)


def not_tested(skipped: list[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """A line for each reason to skip: how much was not tested, and why."""
    found: dict[str, Counter[str]] = {}
    for report in skipped:
        kind = "test" if isinstance(report, pytest.TestReport) else "file"
        found.setdefault(_reason(report), Counter())[kind] += 1
    lines = []
    for reason, counts in sorted(found.items()):
        much = " and ".join(f"{n} {kind}{'s' * (n > 1)}" for kind, n in counts.items())
        lines.append(f"not tested: {much}, as {reason}")
    return lines
