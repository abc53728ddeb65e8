"""Where the project lives, and where it may write."""

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def home() -> Path:
    """The one folder for data, answers and progress: `HPML_HOME`, or `.hpml` in the checkout.

    Made when it is not there yet.
    """
    path = Path(os.environ.get("HPML_HOME") or CHECKOUT / ".hpml").expanduser().resolve()
    path.mkdir(parents=True, exist_ok=True)
    return path
