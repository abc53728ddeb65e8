"""The checkout is formatted, and ruff and mypy find nothing in it; pyproject.toml has their rules.

Each failure is what the tool itself prints. `ruff check --fix` and `ruff format` put most of it
right.
"""

import os
import subprocess
import sys

from hpml.paths import CHECKOUT

# Of mypy's cold start on a busy machine, which takes half a minute on an idle one
LIMIT = 540  # seconds


def run(*words: str) -> None:
    """Run a tool in the checkout; what it prints is the failure."""
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=CHECKOUT, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"


def test_ruff_finds_nothing():
    run("ruff", "check", "--no-cache", "--output-format=concise", ".")


def test_everything_is_formatted():
    run("ruff", "format", "--no-cache", "--check", ".")


def test_types_are_right(tmp_path):
    kept = CHECKOUT / ".mypy_cache"
    cache = kept if os.access(CHECKOUT, os.W_OK) else tmp_path
    run("mypy", f"--cache-dir={cache}", "--no-error-summary")
