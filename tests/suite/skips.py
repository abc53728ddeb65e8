"""What a machine lacks is skipped by name for a learner, and is a failure where CI=true.

`.ci/run` installs whatever can be installed, so that there only hardware may be missing. The last
lines of a run name what was not tested, and how to get what that takes. A pytest plugin.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable

import pytest

from hpml.paths import CHECKOUT

IN_CI = os.environ.get("CI") == "true"
HARDWARE = ("GPU", "processor")  # a reason to skip in CI must name one of these
LEFT_OUT = "left out: "  # begins the reason where the run itself was not to play it


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _held_to_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _held_to_ci((yield))


def _held_to_ci(report):
    """The report, but a failure where it is of a skip that CI does not allow."""
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        why = reason(report)
        if not why.startswith(LEFT_OUT) and not any(word in why for word in HARDWARE):
            report.outcome = "failed"
            report.longrepr = f"{why}: no reason in CI, .ci/run has to install what is missing"
    return report


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
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
        found.setdefault(reason(report), Counter())[kind] += 1
    lines = []
    for why, counts in sorted(found.items()):
        much = " and ".join(f"{n} {kind}{'s' * (n > 1)}" for kind, n in counts.items())
        lines.append(f"not tested: {much}, as {why}")
    return lines
