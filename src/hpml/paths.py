"""Where the project lives, and where it may write."""

import os
from pathlib import Path

from hpml.errors import UserError

# Links are not followed: in a copy (hpml.course.own_copy) src is one, and the copy counts
CHECKOUT = Path(os.path.abspath(__file__)).parents[2]
# The folder that was installed: of a copy, where it came from
INSTALLED = Path(__file__).resolve().parents[2]


def home() -> Path:
    """The one folder for data, answers and progress: `HPML_HOME`, or `.hpml` in the checkout.

    Made when it is not there yet. Raises UserError where it cannot be.
    """
    path = Path(os.environ.get("HPML_HOME") or CHECKOUT / ".hpml").expanduser().resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{path} cannot be made ({error.strerror}): ./hpml copy FOLDER makes a copy of the "
            "course that is yours, or name a folder of yours in HPML_HOME"
        ) from None
    return path
