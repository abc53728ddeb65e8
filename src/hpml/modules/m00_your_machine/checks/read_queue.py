"""read_queue: figures from squeue and sacct: who waits and why, what was used, what failed.

`read_queue(squeue, sacct, user) -> dict`. The texts are generated in the format of SLURM 22.05.
squeue's is that of the virtual cluster, and a test compares it with squeue's output there. That
cluster keeps no accounts, so sacct's follows its manual page, sacct(1).
"""

import math
import random
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.ranks import mark

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
    """A small case, for readable messages, and two in which every kind of line occurs."""
    rng = random.Random(seed)
    (user, other), short = rng.sample(_LONG, 2), rng.choice(_SHORT)
    prefix, longer = rng.choice(_SHORT)
    return [
        _case(rng, longer, prefix, full=False),
        _case(rng, user, other, full=True),
        _case(rng, *short, full=True),
    ]


def _case(rng: random.Random, user: str, other: str, full: bool) -> Case:
    number = rng.randrange(1000, 8_000_000)
    numbers = iter(sorted(rng.sample(range(number, number + 500), 16)))
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
        ]
        accounted += [
            Accounted(f"{sweep}_2", "sweep", "TIMEOUT", 2, day, 2),
            Accounted(f"{sweep}_3", "sweep", "RUNNING", 2, day, 2),
            Accounted(f"{sweep}_[{many}-{many + 4}%2]", "sweep", "PENDING", 2, 0, 0),
            Accounted(str(next(numbers)), "big", "CANCELLED by 1000", width(), some(), 1),
            Accounted(str(next(numbers)), "big", "CANCELLED by 1000", width(), 0, 0),
            Accounted(str(next(numbers)), "alone", "FAILED", width(), some(), 2),
            # More than one day, and days of two digits
            Accounted(str(next(numbers)), "weeks", "COMPLETED", width(), 9 * day + some(), 2),
            Accounted(f"{again}_7", "scan", "OUT_OF_MEMORY", width(), some(), 2),
            Accounted(f"{again}_8", "scan", "NODE_FAIL", width(), day + some(), 2),
            Accounted(f"{again}_11", "scan", "CANCELLED by 1000", width(), some(), 1),
        ]
    rng.shuffle(queued)
    return Case(user, tuple(queued), tuple(accounted))


def inputs(seed: int, world_size: int) -> list[list[dict[str, str]]]:
    return [[case.given() for case in cases(seed)]]


def drive(answer: ModuleType, given: list[dict[str, str]]) -> list[Any]:
    found = []
    for number, case in enumerate(given, 1):
        mark(f"pair {number} of {len(given)} of texts")
        found.append(answer.read_queue(**case))
    return found


def expect(inputs: list[list[dict[str, str]]], world_size: int) -> None:
    """None: judges make the expected figures from the seed."""


def replies(run: Run, key: str) -> tuple[list[tuple[Case, Any]], Problem | None]:
    """Each case and the answer's value for `key`, or the Problem if there is none."""
    found = []
    wanted = cases(run.seed)
    values = run.values[0] if isinstance(run.values[0], list) else []
    if len(values) != len(wanted):
        message = f"of {len(wanted)} pairs of texts, {len(values)} came back as read"
        return [], Problem(message, "keys")
    for case, value in zip(wanted, values, strict=True):
        if not isinstance(value, dict):
            return [], Problem(f"read_queue returned {described(value)}, not a dict", "keys")
        if key not in value:
            return [], Problem(f"{key!r} is missing from what read_queue returned", "keys")
        found.append((case, value[key]))
    return found, None


def judge_waiting(run: Run) -> Problem | None:
    found, problem = replies(run, "waiting")
    for case, got in found:
        wanted = case.waiting()
        if not isinstance(got, dict):
            return Problem(f"waiting is {described(got)}, not a dict", "keys")
        states = {job.job: job for job in case.queued}
        for job in got:
            if job in wanted:
                continue
            seen = states.get(job)
            if seen is None:
                return Problem(f"waiting has a job {job!r}, which squeue does not list", "array")
            if seen.user != case.user:
                return Problem(f"job {job} is of user {seen.user[:8]}, not of {case.user}", "user")
            return Problem(f"job {job} does not wait: its state is {seen.state}", "states")
        for job, reason in wanted.items():
            if job not in got:
                hint = "user" if len(case.user) > 8 and not got else "array"
                seen = f"waiting lacks a job of {case.user} that waits"
                return Problem(seen, hint, f"job {job}")
            if got[job] != reason:
                return Problem(f"job {job} waits for {got[job]!r}", "reason", repr(reason))
    return problem


def judge_node_hours(run: Run) -> Problem | None:
    found, problem = replies(run, "node_hours")
    for case, got in found:
        wanted = case.node_hours()
        if not is_number(got):
            return Problem(f"node_hours is {described(got)}, not a float", "keys")
        if not math.isclose(got, wanted, rel_tol=1e-6):
            return Problem(f"node_hours is {got:.2f}", _hours_hint(case, got), f"{wanted:.2f}")
    return problem


def _hours_hint(case: Case, got: float) -> str:
    """The hint for the misconception that a wrong number of node-hours suggests."""

    def near(jobs: list[tuple[int, float]]) -> bool:
        return math.isclose(got, sum(nodes * time for nodes, time in jobs) / 3600, rel_tol=1e-6)

    ended = [job for job in case.accounted if job.state not in ("RUNNING", "PENDING")]
    if near([(1, job.elapsed) for job in ended]):
        return "nodes"
    if near([(job.nodes, job.elapsed % 86_400) for job in ended]):
        return "days"
    if near([(job.nodes, job.elapsed) for job in case.accounted]):
        return "running"
    for left_out in (lambda state: state != "COMPLETED", lambda state: state.startswith("CANC")):
        if near([(job.nodes, job.elapsed) for job in ended if not left_out(job.state)]):
            return "ended"
    steps = [
        (1 if step == 0 else job.nodes, job.elapsed) for job in ended for step in range(job.steps)
    ]
    if steps and near([*((job.nodes, job.elapsed) for job in ended), *steps]):
        return "steps"
    return "hours"


def judge_failed(run: Run) -> Problem | None:
    found, problem = replies(run, "failed")
    for case, got in found:
        wanted = case.failed()
        if not isinstance(got, list) or not all(isinstance(job, str) for job in got):
            return Problem(f"failed is {described(got)}, not a list of str", "keys")
        states = {job.job: job.state for job in case.accounted}
        for job in got:
            if job in wanted:
                continue
            if "." in job:
                return Problem(f"failed has {job}, which is a step of a job", "steps")
            if "_" not in job:
                return Problem(f"failed has {job}, which is not part of an array", "parts")
            return Problem(f"failed has {job}, whose state is {states.get(job)}", "failures")
        for job in wanted:
            if job not in got:
                seen = "failed lacks a part of an array that has to run again"
                return Problem(seen, "failures", f"{job}, which is {states[job]}")
        if got != wanted:
            return Problem(f"failed is {got}, in another order than sacct's", "order", str(wanted))
    return problem


CHECK = Check(
    id="read_queue",
    title="What squeue and sacct say",
    names=("read_queue",),
    to_write="the reader of the two texts",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
    worlds=(1,),
    process_group=False,
    claims=(
        Claim("waiting has my pending jobs, each with its reason", 2, judge_waiting),
        Claim("node_hours is what my ended jobs have used", 2, judge_node_hours),
        Claim("failed has the parts of arrays that have to run again", 1, judge_failed),
    ),
    hints={
        "start": "Which columns of each table do you need, and what stands between two columns? "
        "Take it line by line, without the header: line.split() for squeue, line.split('|') for "
        "sacct. Print one line's fields before you count on them.",
        "keys": "Return {'waiting': dict, 'node_hours': float, 'failed': list of str}, as the "
        "text says.",
        "array": "Give job ids as squeue prints them. 4711_[4-7%2] is one line, for the parts 4 "
        "to 7 of array 4711 that still wait, of which two may run at a time.",
        "user": "squeue prints eight characters of a user's name, and jobs of everybody. Compare "
        "with user[:8], for equality.",
        "states": "PD is waiting. R runs; CG is completing: it has ended, and its nodes are being "
        "cleaned up. Neither waits.",
        "reason": "The reason is all that stands in the last column's parentheses, and may have "
        "blanks: line.split(None, 7) splits seven times and leaves the rest as it is.",
        "nodes": "A node-hour is one node for one hour: a job on 8 nodes for half an hour has used "
        "four. Multiply before you add.",
        "days": "1-02:03:04 is one day, 2 hours, 3 minutes and 4 seconds.",
        "running": "A job that is RUNNING has not ended, whatever its time so far.",
        "ended": "Failed, timed out and cancelled jobs have ended too, and their nodes were in use "
        "until then. The state of a cancelled job goes on: 'CANCELLED by 1000'.",
        "steps": "4711 is a job; 4711.batch, its script, and 4711.0, its first srun, are steps of "
        "it and have run in the same time on the same nodes. Count the job and not its steps.",
        "hours": "Elapsed is hours:minutes:seconds, with days and a dash in front where there are "
        "any. 3600 seconds are an hour.",
        "parts": "A part of an array has an underscore in its id: 4711_3.",
        "failures": "FAILED is one way to fail; TIMEOUT, OUT_OF_MEMORY and NODE_FAIL are others. "
        "A job that was CANCELLED was ended by somebody who wanted that.",
        "order": "Each part once, in sacct's order.",
        "raised": "Which line was it? Lines of a job that completes end early, with no node list, "
        "and the first line is a header.",
    },
)
