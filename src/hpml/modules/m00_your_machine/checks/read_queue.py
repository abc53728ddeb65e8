"""read_queue: figures from squeue and sacct: who waits and why, what was used, what failed.

`read_queue(squeue, sacct, user) -> dict`. The texts are generated in the format of SLURM 22.05. A
test compares squeue's with its output on the virtual cluster, which keeps no accounts.
"""

import math
from types import ModuleType
from typing import Any

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m00_your_machine.checks._slurm_tables import RARE, Case, cases
from hpml.ranks import mark

KEYS = ("waiting", "node_hours", "failed")


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
        if more := [str(other)[:40] for other in value if other not in KEYS]:
            seen = f"read_queue returned {len(value)} entries, {more[0]!r} among them"
            return [], Problem(seen, "keys")
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
    for left_out in (
        lambda state: state != "COMPLETED",
        lambda state: state.startswith("CANC"),
        lambda state: state in RARE,
        lambda state: state.startswith("CANC") or state in RARE,
    ):
        if near([(job.nodes, job.elapsed) for job in ended if not left_out(job.state)]):
            return "ended"
    for looks_like_a_step in (lambda name: "." in name, lambda name: name == "batch"):
        if near([(job.nodes, job.elapsed) for job in ended if not looks_like_a_step(job.name)]):
            return "steps"
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
        "text says: these three entries, also where a dict or list is empty.",
        "array": "Give job ids as squeue prints them. 4711_[4-7%2] is one line, for the parts 4 "
        "to 7 of array 4711 that still wait, of which two may run at a time.",
        "user": "squeue prints eight characters of a user's name, and jobs of everybody. Compare "
        "the user's column with user[:8], for equality: a job can be named like a user.",
        "states": "PD is waiting. R runs; CG is completing: it has ended, and its nodes are being "
        "cleaned up. Neither waits.",
        "reason": "The reason is all that stands in the last column's parentheses, and may have "
        "blanks: line.split(None, 7) splits seven times and leaves the rest as it is.",
        "nodes": "A node-hour is one node for one hour: a job on 8 nodes for half an hour has used "
        "four. Multiply before you add.",
        "days": "1-02:03:04 is one day, 2 hours, 3 minutes and 4 seconds.",
        "running": "A job that is RUNNING has not ended, whatever its time so far.",
        "ended": "Failed, timed out and cancelled jobs have ended too, and their nodes were in use "
        "until then. The state of a cancelled job goes on: 'CANCELLED by 1000'. There are rarer "
        "ends, such as DEADLINE and PREEMPTED: leave out what has not ended, RUNNING and PENDING.",
        "steps": "4711 is a job; 4711.batch, its script, and 4711.0, its first srun, are steps of "
        "it and have run in the same time on the same nodes. Count the job and not its steps. "
        "The dot is in a step's id; a job's name can have one too, and a job can be named batch.",
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
