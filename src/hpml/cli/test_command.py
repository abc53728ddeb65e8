"""./hpml test: every test of the project."""

import os
import subprocess
import sys
from typing import Annotated

import typer

from hpml.errors import DONE, FAILED, NOT_GRADABLE, USAGE
from hpml.paths import CHECKOUT

# pytest's codes: passed, failed, could not collect, internal error, usage, nothing selected.
PYTEST = {0: DONE, 1: FAILED, 2: FAILED, 3: NOT_GRADABLE, 4: USAGE, 5: USAGE}
WORKERS = 2  # more would only make ranks of different tests compete for the cores
# In the order of tests/conftest.py; xdist would begin with the groups that have the most tests.
DISTRIBUTION = ("--dist", "loadgroup", "--no-loadscope-reorder")


def run_tests(
    pytest_arguments: Annotated[
        list[str] | None,
        typer.Argument(help="For pytest: tests/data -k truncated, -n 0 --pdb, ..."),
    ] = None,
) -> int:
    """Run every test of the project, or those that the arguments select.

    Where CI=true, a test that is skipped for something that .ci/run installs is a failure.
    """
    arguments = pytest_arguments or []
    if not any(argument.startswith(("-n", "--numprocesses", "--pdb")) for argument in arguments):
        arguments += ["-n", str(min(WORKERS, os.cpu_count() or 1)), *DISTRIBUTION]
    command = [sys.executable, "-m", "pytest", "--durations=10", *arguments]
    code = subprocess.run(command, cwd=CHECKOUT).returncode
    return PYTEST.get(code, NOT_GRADABLE)
