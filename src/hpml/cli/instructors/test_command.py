"""`./hpml test`: which tests a run plays is in tests/suite/."""

import os
import subprocess
import sys
from typing import Annotated

import typer

from hpml.errors import DONE, FAILED, NOT_GRADABLE, USAGE
from hpml.paths import CHECKOUT

# pytest's codes: passed, failed, could not collect, internal error, usage, nothing selected.
PYTEST = {0: DONE, 1: FAILED, 2: FAILED, 3: NOT_GRADABLE, 4: USAGE, 5: USAGE}
# In the order of tests/suite/order.py; xdist would begin with the groups that have the most tests.
DISTRIBUTION = ("--dist", "loadgroup", "--no-loadscope-reorder")


def run_tests(
    pytest_arguments: Annotated[
        list[str] | None,
        typer.Argument(help="--quick, --changed, --all, tests/data -k truncated, -n 0 --pdb, ..."),
    ] = None,
) -> int:
    """Run the tests: what a change touches, and of the rest of the answers and notebooks a share.

    --quick plays what starts no process and takes less than a second; --changed what the files
    touch that differ from the last commit, for at most three minutes; --all everything. All other
    arguments are pytest's. Where CI=true, a test that is skipped for something that .ci/run
    installs is a failure.
    """
    arguments = pytest_arguments or []
    if not any(argument.startswith(("-n", "--numprocesses", "--pdb")) for argument in arguments):
        # One more than there are cores: launches of ranks wait for each other
        arguments += ["-n", str((os.cpu_count() or 1) + 1), *DISTRIBUTION]
    command = [sys.executable, "-m", "pytest", "--durations=10", *arguments]
    # Hundreds of Pythons are started: each would compile the library and the tests anew
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    code = subprocess.run(command, cwd=CHECKOUT, env=environment).returncode
    return PYTEST.get(code, NOT_GRADABLE)
