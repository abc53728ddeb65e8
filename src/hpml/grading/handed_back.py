"""What of a judge's message a learner is handed back: what was seen, not what should have been.

The inputs of a grading are the same for a whole class, and one person's expected values are
another's answer.
"""

import re

_EXPECTED = re.compile(r",? expected .*", re.DOTALL)  # messages end with it


def without_expected(message: str) -> str:
    """`message` without the value that was expected."""
    return _EXPECTED.sub("", message)
