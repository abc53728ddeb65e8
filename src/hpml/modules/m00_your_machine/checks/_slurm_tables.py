"""Tables as squeue and sacct print them, of jobs that are drawn, and what is to be found in them.

squeue's is that of SLURM 22.05 on the virtual cluster; sacct's follows its manual page, sacct(1).
"""

import random
from dataclasses import dataclass

_HEADER = "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
_REASONS = [
    "Resources",
    "Priority",
    "Dependency",
    "BeginTime",
    "QOSMaxJobsPerUserLimit",
    "ReqNodeNotAvail, UnavailableNodes:n[3-4]",
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
]
# _LONG: squeue prints eight characters. _SHORT: one user's name is a prefix of another's.
_LONG = ["annabelle.meyer", "maximilian", "wilhelmina"]
_SHORT = [("jo", "joanna"), ("tom", "tomas"), ("rosa", "rosalie")]
FAILED = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL")
RARE = ("DEADLINE", "PREEMPTED")  # ways to end that few have met


@dataclass(frozen=True)
class Queued:
    """A line of squeue."""

    job: str
    name: str
    user: str
    state: str  # PD, R, CG
    elapsed: int  # seconds
    nodes: int
    last: str  # node list, or the reason

    def line(self) -> str:
        last = f"({self.last})" if self.state == "PD" else "" if self.state == "CG" else self.last
        return (
            f"{self.job:>18} {'course':>9} {self.name[:8]:>8} {self.user[:8]:>8} {self.state:>2} "
            f"{_squeue_time(self.elapsed):>10} {self.nodes:>6} {last}"
        )


@dataclass(frozen=True)
class Accounted:
    """A job or array part in sacct's output; `steps` are its .batch and its srun steps."""

    job: str
    name: str
    state: str
    nodes: int
    elapsed: int  # seconds
    steps: int

    def lines(self) -> list[str]:
        code = "1:0" if self.state in ("FAILED", "OUT_OF_MEMORY") else "0:0"
        elapsed = _sacct_time(self.elapsed)
        own = [f"{self.job}|{self.name}|{self.state}|{code}|{self.nodes}|{elapsed}"]
        state = self.state.split()[0]
        for step in range(self.steps):
            name, nodes = ("batch", 1) if step == 0 else ("python", self.nodes)
            suffix = "batch" if step == 0 else str(step - 1)
            own.append(f"{self.job}.{suffix}|{name}|{state}|{code}|{nodes}|{elapsed}")
        return own


@dataclass(frozen=True)
class Case:
    """The two texts, and the jobs in them."""

    user: str
    queued: tuple[Queued, ...]
    accounted: tuple[Accounted, ...]

    def given(self) -> dict[str, str]:
        sacct = ["JobID|JobName|State|ExitCode|NNodes|Elapsed"]
        sacct += [line for job in self.accounted for line in job.lines()]
        squeue = [_HEADER, *(job.line() for job in self.queued)]
        return {"squeue": _text(squeue), "sacct": _text(sacct), "user": self.user}

    def waiting(self) -> dict[str, str]:
        mine = [job for job in self.queued if job.user == self.user and job.state == "PD"]
        return {job.job: job.last for job in mine}

    def node_hours(self) -> float:
        ended = [job for job in self.accounted if job.state not in ("RUNNING", "PENDING")]
        return sum(job.nodes * job.elapsed for job in ended) / 3600

    def failed(self) -> list[str]:
        return [job.job for job in self.accounted if "_" in job.job and job.state in FAILED]


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def _clock(seconds: int) -> tuple[int, int, int, int]:
    return seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60, seconds % 60


def _squeue_time(seconds: int) -> str:
    """0:07, 12:34, 2:03:04, 1-02:03:04."""
    days, hours, minutes, rest = _clock(seconds)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _sacct_time(seconds: int) -> str:
    """00:00:07, 1-02:03:04."""
    days, hours, minutes, rest = _clock(seconds)
    return (f"{days}-" if days else "") + f"{hours:02}:{minutes:02}:{rest:02}"


def cases(seed: int) -> list[Case]:
    """A small case, for readable messages, two in which every kind of line occurs, and one in which
    nobody waits and nothing has failed."""
    rng = random.Random(seed)
    (user, other), short = rng.sample(_LONG, 2), rng.choice(_SHORT)
    prefix, longer = rng.choice(_SHORT)
    return [
        _case(rng, longer, prefix, full=False),
        _case(rng, user, other, full=True),
        _case(rng, *short, full=True),
        _quiet(rng, user, other),
    ]


def _quiet(rng: random.Random, user: str, other: str) -> Case:
    first = rng.randrange(1000, 8_000_000)
    return Case(
        user,
        (
            Queued(str(first), "train", user, "R", 4000, 2, "n[1-2]"),
            Queued(str(first + 1), "train", other, "PD", 0, 2, "Resources"),
        ),
        (
            Accounted(str(first), "train", "RUNNING", 2, 4000, 1),
            Accounted(f"{first + 2}_0", "sweep", "COMPLETED", 3, rng.randrange(60, 4000), 2),
        ),
    )


def _case(rng: random.Random, user: str, other: str, full: bool) -> Case:
    number = rng.randrange(1000, 8_000_000)
    numbers = iter(sorted(rng.sample(range(number, number + 500), 24)))
    day = rng.randrange(100_000, 400_000)

    def some() -> int:
        return rng.randrange(60, 80_000)

    def width() -> int:
        return rng.randrange(2, 17)

    sweep, failing, again = (str(next(numbers)) for _ in range(3))
    reasons = rng.sample(_REASONS[:5], 3) if not full else rng.sample(_REASONS, 4)
    queued = [
        Queued(str(next(numbers)), "train", user, "PD", 0, width(), reasons[0]),
        Queued(str(next(numbers)), "train", other, "PD", 0, width(), reasons[1]),
        Queued(str(next(numbers)), "resnet-long", user, "R", some(), width(), "n[1-4]"),
    ]
    accounted = [
        Accounted(str(next(numbers)), "train", "COMPLETED", width(), some(), 2 * full),
        Accounted(f"{failing}_0", "sweep", "FAILED", width(), some(), 2 * full),
        Accounted(f"{failing}_1", "sweep", "COMPLETED", width(), some(), 2 * full),
    ]
    if full:
        many = rng.randrange(4, 9)
        queued += [
            Queued(
                f"{sweep}_[{many}-{many + 4}%2]", "sweep", user, "PD", 0, 2, "JobArrayTaskLimit"
            ),
            Queued(f"{sweep}_3", "sweep", user, "R", day, 2, "n[5-6]"),
            Queued(f"{sweep}_2", "sweep", user, "CG", some(), 2, ""),
            Queued(str(next(numbers)), "eval", user, "PD", 0, width(), _REASONS[-1]),
            Queued(str(next(numbers)), "eval", user, "PD", 0, width(), _REASONS[-2]),
            Queued(str(next(numbers)), "eval", other, "CG", some(), width(), ""),
            # Names that look like what another column has
            Queued(str(next(numbers)), user, other, "PD", 0, width(), reasons[2]),
            Queued(str(next(numbers)), "PD", user, "R", some(), width(), "n7"),
        ]
        accounted += [
            Accounted(f"{sweep}_2", "sweep", "TIMEOUT", 2, day, 2),
            Accounted(f"{sweep}_3", "sweep", "RUNNING", 2, day, 2),
            Accounted(f"{sweep}_[{many}-{many + 4}%2]", "sweep", "PENDING", 2, 0, 0),
            Accounted(str(next(numbers)), "big", "CANCELLED by 1000", width(), some(), 1),
            Accounted(str(next(numbers)), "big", "CANCELLED by 1000", width(), 0, 0),
            # No parts of arrays and no steps, whatever their names and states have in them
            Accounted(str(next(numbers)), "fine_tune.v2", "FAILED", width(), some(), 2),
            Accounted(str(next(numbers)), "greedy", "OUT_OF_MEMORY", width(), some(), 2),
            Accounted(str(next(numbers)), "batch", "COMPLETED", width(), some(), 2),
            *(Accounted(str(next(numbers)), "night", end, width(), some(), 2) for end in RARE),
            # More than one day, and days of two digits
            Accounted(str(next(numbers)), "weeks", "COMPLETED", width(), 9 * day + some(), 2),
            Accounted(f"{again}_7", "scan", "OUT_OF_MEMORY", width(), some(), 2),
            Accounted(f"{again}_8", "scan", "NODE_FAIL", width(), day + some(), 2),
            Accounted(f"{again}_11", "scan", "CANCELLED by 1000", width(), some(), 1),
            # After the others: sacct's order is not by state
            Accounted(f"{again}_12", "scan", "FAILED", width(), some(), 2),
        ]
    rng.shuffle(queued)
    return Case(user, tuple(queued), tuple(accounted))
