"""A job script as sbatch reads it: which of its lines count, and what they request.

After sbatch(1): `#SBATCH` begins in the first column, and lines after the first command do not
count. Only options that a check uses are known here. A script may hold numbers of any length: those
longer than any that SLURM takes are not read as numbers.
"""

import argparse
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

_OPTIONS = {
    "job-name": "J",
    "nodes": "N",
    "ntasks": "n",
    "ntasks-per-node": None,
    "cpus-per-task": "c",
    "time": "t",
    "array": "a",
    "output": "o",
}

LARGEST_ARRAY = 4_000_001  # what MaxArraySize may be at most: see slurm.conf(5)
WIDEST = 10  # digits to which a number in a file's name is padded, at most


@dataclass(frozen=True)
class Request:
    """What a script requests: option values by long name, as text; the last one given counts.

    `ignored` are lines that look like requests but do not count.
    """

    options: Mapping[str, str]
    ignored: tuple[str, ...] = ()


def read(script: str) -> Request:
    """The request in a job script. Raises ValueError if sbatch would reject the script."""
    if not script.startswith("#!"):
        first = script.partition("\n")[0]
        raise ValueError(
            f"sbatch wants #! as the first two characters; the first line is {first!r}"
        )
    if "\r" in script:
        raise ValueError("sbatch refuses DOS line breaks, \\r\\n: end each line with \\n alone")
    words: list[str] = []
    ignored = []
    counts = True
    for line in script.splitlines():
        if counts and re.match(r"#SBATCH\s", line):
            words += shlex.split(line.removeprefix("#SBATCH"), comments=True)
        elif re.match(r"\s*#\s*SBATCH\s", line, re.IGNORECASE):
            ignored.append(line.strip())
        elif line.strip() and not line.lstrip().startswith("#"):
            counts = False
    for word in words:
        if glued := re.match(r"(-[A-Za-z])(=.*)", word):  # argparse takes the = away
            raise ValueError(
                f"sbatch takes {glued[2]!r} as the value of {glued[1]}: write {glued[1]}"
                f"{glued[2].removeprefix('=')}, or the long name with ="
            )
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for name, letter in _OPTIONS.items():
        parser.add_argument(*([f"-{letter}"] if letter else []), f"--{name}", dest=name)
    try:
        found, _ = parser.parse_known_args(words)
    except argparse.ArgumentError as error:
        raise ValueError(f"sbatch would not understand it: {error}") from None
    options = {name: value for name, value in vars(found).items() if value is not None}
    return Request(options, tuple(ignored))


def seconds(limit: str) -> int | None:
    """A time limit in seconds, or None if the text is not one.

    "7" is minutes, "7:30" minutes and seconds, "1:07:30" with hours, "2-1", "2-1:07", "2-1:07:30"
    with days in front of hours.
    """
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?", limit)
    if match is None:
        return None
    days, *parts = match.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is None:  # the last is seconds, unless it is the only one
        numbers = [0, *numbers, 0] if len(numbers) == 1 else [0] * (3 - len(numbers)) + numbers
    hours, minutes, rest = (*numbers, 0, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + rest


def array_parts(text: str) -> list[int] | None:
    """The indices of an array: "0-3", "1,5", "0-6:2", with or without "%2"; None if invalid.

    An array that is larger than any SLURM takes is invalid, too.
    """
    ranges: list[range] = []
    for piece in re.sub(r"%\d+$", "", text).split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", piece)
        if match is None:
            return None
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or step < 1 or last >= LARGEST_ARRAY:
            return None
        ranges.append(range(first, last + 1, step))
    if sum(map(len, ranges)) > LARGEST_ARRAY:
        return None
    return list(ranges[0]) if len(ranges) == 1 else sorted(set().union(*ranges))


def log_name(pattern: str, *, name: str, array: int, part: int, job: int) -> str:
    """The name of one array part's log file, from --output; `job` is the part's own id.

    Replaces %A, %a, %j, %x and %%, with a width for numbers (%4a); any other % is kept.
    """
    numbers = {"A": array, "a": part, "j": job}

    def expanded(match: re.Match[str]) -> str:
        width, letter = match.groups()
        if letter in numbers:
            return str(numbers[letter]).zfill(min(int(width or 0), WIDEST))
        return {"x": name, "%": "%"}.get(letter, match[0])

    return re.sub(r"%(\d{0,9})([A-Za-z%])", expanded, pattern).removeprefix("./")
