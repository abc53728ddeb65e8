"""What the numbers of `%%ranks` may be, and what is said of others: types for argparse."""

import argparse
import math
import shlex

from IPython.core.error import UsageError


def count(text: str) -> int:
    """A whole number from 1 on. Raises ArgumentTypeError."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a whole number from 1 on")
    return number


def seconds(text: str) -> float:
    """A time, more than none and not without end. Raises ArgumentTypeError."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: give a number of seconds, more than 0")
    return number


def words_of(line: str, magic: str) -> list[str]:
    """The line's words, as a shell has them. Raises UsageError where a quotation does not end."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{magic} {line.strip()}: {str(error).lower()}") from None
