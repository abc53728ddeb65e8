"""Fresh hung jobs, made of recorded ones: other ranks, another number of them, other lines.

`_hung_jobs.json` has what py-spy 0.4, the log and the flight recorder (torch 2.13, Gloo) have of
jobs that hung under torchrun; `_record_hung_jobs.py` recorded it. Each text of a new job is one of
these, with its numbers replaced.
"""

import copy
import json
import random
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_CULPRIT = 2  # in the recordings, of which all have 4 ranks
# In _hung_job.py: the line at which the rank stands that does not come, by the reason for it
_STANDS_AT = {
    "file": "time.sleep(LONG)  # as",
    "loader": "next(iter(",
    "computes": "images = torch.randn(512",
    "elsewhere": "dist.all_gather([torch.zeros(1) for",
    "raises": "raise ValueError(",
}
# Recording, number of ranks (None: drawn), rank that does not come (None: drawn)
_Kind = tuple[str, int | None, int | None]
# With two ranks, an answer that cannot tell who waits names the first or the second. Rank 11 is the
# last of 12: its number has two digits, and begins as rank 1's does.
_STACKS: tuple[_Kind, ...] = (
    ("loader", None, None),
    ("loader", 2, 1),
    ("file", 2, 0),
    ("computes", None, None),
    ("elsewhere", None, None),
)
_LOGS: tuple[_Kind, ...] = (
    ("raises", 2, None),
    ("raises", None, None),
    ("monitored", None, None),
    ("detail", 12, 11),
)
_RECORDERS: tuple[_Kind, ...] = (
    ("later", 2, None),
    ("later", None, None),
    ("later_gather", None, None),
)


@dataclass(frozen=True)
class HungJob:
    """What there is of a hung job, by rank, and what is to be found in it."""

    source: str  # what tells: stacks, log or recorder
    name: str  # for messages
    stacks: Mapping[int, str]  # py-spy's dumps; empty if the job has ended
    log: str  # standard error of all ranks
    recorder: Mapping[int, Any]  # the flight recorder's traces; empty without one
    rank: int
    call: str
    line: int


@cache
def recorded() -> dict[str, Any]:
    return json.loads((_HERE / "_hung_jobs.json").read_text(encoding="utf-8"))


def stands_at(why: str) -> int:
    """The line of _hung_job.py at which the rank stands that does not come."""
    lines = (_HERE / "_hung_job.py").read_text(encoding="utf-8").splitlines()
    (number,) = [n for n, line in enumerate(lines, 1) if line.strip().startswith(_STANDS_AT[why])]
    return number


@cache
def hung_jobs(seed: int) -> tuple[HungJob, ...]:
    draw = random.Random(seed)
    kinds = {"stacks": _STACKS, "log": _LOGS, "recorder": _RECORDERS}
    return tuple(
        _hung_job(draw, source, name, world_size or draw.randint(3, 8), culprit)
        for source, jobs in kinds.items()
        for name, world_size, culprit in jobs
    )


def _hung_job(
    draw: random.Random, source: str, name: str, world_size: int, culprit: int | None
) -> HungJob:
    job = recorded()[name]
    if culprit is None:
        # Rank 0 of a monitored barrier waits for all others, and reports who is missing
        culprit = draw.randrange(name == "monitored", world_size)
    waiting = [rank for rank in range(world_size) if rank != culprit]
    roles = {rank: draw.choice("13") for rank in waiting} | {culprit: str(_CULPRIT)}
    roles[waiting[0]] = "0"  # which is not in the group of the node
    line = _moved(draw)
    while _script_numbers(job, line) & _library_numbers(job):  # a wrong line has one reason
        line = _moved(draw)
    numbers = _process_ids(draw)
    command = f"train.py --epochs {draw.randint(3, 300)}"
    stacks = {
        rank: _stack(job["stacks"][role], command, line, numbers)
        for rank, role in roles.items()
        if job["stacks"]
    }
    others = {"0": waiting[0], str(_CULPRIT): culprit}
    logs = [_log(job["logs"][role], line, others | {role: rank}) for rank, role in roles.items()]
    steps = draw.randint(10, 4000)
    # Numbers of the two groups overlap
    earlier, start = {"0": steps, "1": steps + draw.randint(1, 3)}, draw.randint(0, 10**15)
    recorder = {
        rank: _trace(job["traces"][role], line, world_size, earlier, start)
        for rank, role in roles.items()
        if job["traces"]
    }
    order = draw.sample(waiting, len(waiting))
    # Neither first nor last, where there are more than two
    order.insert(draw.randint(1, max(1, len(order) - 1)), culprit)
    draw.shuffle(logs)
    return HungJob(
        source,
        f"a job of {world_size} ranks",
        {rank: stacks[rank] for rank in order if stacks},
        "".join(logs),
        {rank: recorder[rank] for rank in order if recorder},
        culprit,
        job["call"],
        line(stands_at(job["why"])),
    )


def _moved(draw: random.Random) -> Callable[[int], int]:
    """Where a line of the script stands in another version of it, which has more lines."""
    count = len((_HERE / "_hung_job.py").read_text(encoding="utf-8").splitlines())
    added = sorted(draw.choices(range(1, count + 1), k=draw.randint(60, 300)))
    return lambda number: number + bisect_right(added, number)


def _script_numbers(job: Mapping[str, Any], line: Callable[[int], int]) -> set[int]:
    """The lines of train.py in a job's texts."""
    found = re.findall(r'train\.py(?::|\\", line )(\d+)', json.dumps(job))
    return {line(int(number)) for number in found}


def _library_numbers(job: Mapping[str, Any]) -> set[int]:
    """The lines of all other files in a job's texts."""
    found = re.findall(r'([\w.]+\.py)(?::|\\", line )(\d+)', json.dumps(job))
    return {int(number) for file, number in found if file != "train.py"}


def _process_ids(draw: random.Random) -> Callable[[str], str]:
    """Other process ids for those of one dump, the same each time."""
    last = draw.randint(2000, 4_000_000)
    given: dict[str, str] = {}

    def other(number: str) -> str:
        nonlocal last
        if number not in given:
            last += draw.randint(1, 30)
            given[number] = str(last)
        return given[number]

    return other


def _script_lines(text: str, line: Callable[[int], int]) -> str:
    """With the lines of train.py moved: `(train.py:84)`, `train.py", line 84`."""
    pattern = r"(train\.py(?::|\", line ))(\d+)"
    return re.sub(pattern, lambda found: f"{found[1]}{line(int(found[2]))}", text)


def _stack(
    text: str, command: str, line: Callable[[int], int], numbers: Callable[[str], str]
) -> str:
    text = re.sub(r"train\.py --.*", command, _script_lines(text, line))
    own: dict[str, str] = {}

    def other(found: re.Match[str]) -> str:
        if found[2] not in own:  # ranks have threads of their own
            own[found[2]] = numbers(f"{len(own)} {id(own)}")
        return f"{found[1]} {own[found[2]]}"

    return re.sub(r"^(Process|Thread) (\d+)", other, text, flags=re.M)


def _log(text: str, line: Callable[[int], int], ranks: Mapping[str, int]) -> str:
    """A rank's log; `ranks` has the new ranks by the recorded ones."""

    def other(found: re.Match[str]) -> str:
        return f"{found[1]}{ranks[found[2]]}"

    return re.sub(r"(\[rank|[Rr]ank )(\d+)", other, _script_lines(text, line))


def _trace(
    trace: Mapping[str, Any],
    line: Callable[[int], int],
    world_size: int,
    earlier: Mapping[str, int],
    start: int,
) -> dict[str, Any]:
    """A trace whose ring has lost the first collectives: so many of each group."""
    made = copy.deepcopy(dict(trace))
    for group in made["pg_config"].values():
        if group["ranks"] != "[]":
            group["ranks"] = str(list(range(world_size)))
    for group, status in made["pg_status"].items():
        for key in ("last_enqueued_collective", "last_completed_collective"):
            status[key] += earlier[group]
    for entry in made["entries"]:
        group, _ = entry["process_group"]
        entry["collective_seq_id"] += earlier[group]
        entry["op_id"] += earlier[group]
        entry["record_id"] += earlier["0"]
        entry["time_created_ns"] += start
        for frame in entry["frames"]:
            if frame["filename"].endswith("/train.py"):
                frame["line"] = line(frame["line"])
    return made
