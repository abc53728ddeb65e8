# %%answer read_queue
# unusual: dataclasses, generators, a regular expression, timedelta, a Counter for no need
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import timedelta

TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)")
OVER = frozenset({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"})


@dataclass(frozen=True)
class Job:
    id: str
    name: str
    state: str
    code: str
    nodes: str
    elapsed: str

    @property
    def is_step(self) -> bool:
        return "." in self.id

    @property
    def ended(self) -> bool:
        return self.state.split()[0] not in {"RUNNING", "PENDING"}

    @property
    def hours(self) -> float:
        parts = TIME.fullmatch(self.elapsed).groupdict(default="0")
        spent = timedelta(**{unit: int(n) for unit, n in parts.items()})
        return int(self.nodes) * (spent / timedelta(hours=1))


def jobs(text: str) -> Iterator[Job]:
    header, *lines = text.strip().split("\n")
    assert header.count("|") == len(fields(Job)) - 1
    yield from (Job(*line.split("|")) for line in lines)


def read_queue(squeue: str, sacct: str, user: str) -> dict:
    waiting = Counter()
    for line in squeue.strip().split("\n")[1:]:
        id_, _, _, who, state, _, _, *last = line.split(maxsplit=7)
        if (who, state) == (user[:8], "PD"):
            waiting[id_] = last[0].strip("()")
    whole = [job for job in jobs(sacct) if not job.is_step]
    return {
        "waiting": waiting,
        "node_hours": sum(job.hours for job in whole if job.ended),
        "failed": [job.id for job in whole if "_" in job.id and job.state in OVER],
    }
