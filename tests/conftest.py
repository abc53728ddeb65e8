"""What a machine lacks is skipped by name for a learner, and is a failure where CI=true.

`.ci/run` installs whatever can be installed, so that there only hardware may be missing.
"""

import os
import shutil
from collections.abc import Callable

import pytest
from hypothesis import settings

# How long an example takes depends on how busy the machine is.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

IN_CI = os.environ.get("CI") == "true"
HARDWARE = ("GPU", "processor")  # a reason to skip in CI must name one of these


@pytest.fixture
def needs() -> Callable[[str], str]:
    """`needs("shellcheck")` is the program's path; the test is skipped where it is not there."""

    def path_of(program: str) -> str:
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is not installed")
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
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(word in reason for word in HARDWARE):
            report.outcome = "failed"
            report.longrepr = f"{reason}: no reason in CI, .ci/run has to install what is missing"
    return report
