"""Exercise find_the_hang: a hung job's stacks, log and flight recorder: who does not come?

`find_the_hang(stacks, log, recorder) -> (rank, call, line)`. The jobs are made of recorded ones
(`_hung_jobs.py`).
"""

import re
from types import ModuleType
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.raised_here import in_words
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m06_torch_distributed.checks._hung_jobs import HungJob, hung_jobs


def inputs(seed: int, world_size: int) -> list[list[dict[str, Any]]]:
    """For the only rank: each job's stacks, log and flight recorder."""
    return [
        [
            {
                "stacks": [[rank, text] for rank, text in job.stacks.items()],
                "log": job.log,
                "recorder": [[rank, trace] for rank, trace in job.recorder.items()],
            }
            for job in hung_jobs(seed)
        ]
    ]


def drive(answer: ModuleType, given: list[dict[str, Any]]) -> list[Any]:
    """What the answer finds in each job, as a list; or the exception, in words."""
    found = []
    for job in given:
        try:
            named = answer.find_the_hang(dict(job["stacks"]), job["log"], dict(job["recorder"]))
            found.append(list(named) if isinstance(named, tuple) else named)
        except (NotImplementedError, ImportError):
            raise
        except Exception as error:  # a job that is read wrong costs its own claim's points only
            found.append({"raised": in_words(error, answer)})
    return found


def expect(inputs: list[list[dict[str, Any]]], world_size: int) -> None:
    """None: judges make the jobs from the seed."""


def judge(run: Run, source: str) -> Problem | None:
    jobs = hung_jobs(run.seed)
    values = run.values[0] if isinstance(run.values[0], list) else []
    if len(values) != len(jobs):
        return Problem(f"of {len(jobs)} jobs, {len(values)} came back as read", "tuple")
    for job, value in zip(jobs, values, strict=True):
        if job.source == source and (problem := wrong(job, value)):
            return problem
    return None


def judge_stacks(run: Run) -> Problem | None:
    return judge(run, "stacks")


def judge_log(run: Run) -> Problem | None:
    return judge(run, "log")


def judge_recorder(run: Run) -> Problem | None:
    return judge(run, "recorder")


def wrong(job: HungJob, value: Any) -> Problem | None:
    """What is wrong with the rank, call and line that were named for a job; or None."""
    if isinstance(value, dict) and isinstance(value.get("raised"), str):
        hint = {"stacks": "nobody", "log": "gone", "recorder": "later"}[job.source]
        hint = hint if job.stacks else "ended"
        return Problem(f"{_where(job)}: {value['raised']}", hint)
    if not isinstance(value, list) or len(value) != 3:
        seen = f"{_where(job)}: find_the_hang returned {described(value)}"
        return Problem(seen, "tuple", "three values")
    for name, one, kind in zip(("rank", "call", "line"), value, (int, str, int), strict=True):
        if type(one) is not kind:
            seen = f"{_where(job)}: {name} is {described(one)}, not of type {kind.__name__}"
            return Problem(seen, "tuple")
    rank, call, line = value
    if rank != job.rank:
        return Problem(f"{_where(job)}: rank {rank} is named", _rank_hint(job), f"rank {job.rank}")
    if call != job.call:
        return Problem(
            f"{_where(job)}: the call is {call!r}", _call_hint(job, call), repr(job.call)
        )
    if line != job.line:
        return Problem(f"{_where(job)}: line {line}", _line_hint(job, line), f"line {job.line}")
    return None


def _where(job: HungJob) -> str:
    told = {"stacks": "stack dumps", "log": "its log", "recorder": "the flight recorder"}
    return f"{job.name}, {told[job.source]}"


def _rank_hint(job: HungJob) -> str:
    if job.source == "recorder":
        return "later"
    if "monitoredBarrier" in job.log:
        return "reported"
    if not job.stacks:
        return "ended"
    if job.source == "log":
        return "gone"
    return "two" if len(job.stacks) == 2 else "waits"


def _call_hint(job: HungJob, call: str) -> str:
    if "wrapper" in call or call in ("train", "average", "<module>"):
        return "frame"
    return "call"


def _line_hint(job: HungJob, line: int) -> str:
    """The hint for the misconception that a wrong line suggests."""
    if abs(line - job.line) == 1:
        return "next"
    handled = "".join(re.findall(r"^ +File .*\n", job.log, re.M))
    if job.source == "log" and line in _lines(handled):
        return "gone"
    own = job.stacks.get(job.rank, "")
    main = own.split("\nThread ")[1] if "\nThread " in own else ""
    traceback = "".join(re.findall(rf"^\[rank{job.rank}\].*\n", job.log, re.M))
    if line in _lines(main) or line in _lines(traceback):
        return "innermost"
    if line in _lines(own):
        return "threads"
    others = "".join(text for rank, text in job.stacks.items() if rank != job.rank)
    if line in _lines(others) or line in _lines(job.log):
        return "whose"
    return "library"


def _lines(text: str) -> list[int]:
    return [int(line) for line in re.findall(r"train\.py(?::|\", line )(\d+)", text)]


CHECK = Check(
    id="find_the_hang",
    title="Find the hang",
    names=("find_the_hang",),
    to_write="the function that finds the rank for which the others wait",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
    worlds=(1,),
    process_group=False,
    claims=(
        Claim("stack dumps show who is not where the others wait", 4, judge_stacks),
        Claim("where a rank has raised, the log shows it", 3, judge_log),
        Claim(
            "where nobody stands in a collective, the flight recorder shows it", 3, judge_recorder
        ),
    ),
    hints={
        "start": "Print one stack dump and its frames. Ranks that wait stand in a function of "
        "distributed_c10d.py, all of them at the same line of train.py. Who does not?",
        "tuple": "Return a tuple (rank, call, line): an int, a str, an int.",
        "waits": "A rank that waits is where it should be: in the collective. The rank to name is "
        "the one that the others wait for. It may be in the loader, in a computation, or in "
        "another collective; the order of the dumps means nothing.",
        "two": "With two ranks no majority shows who is late. A rank that waits stands in a "
        "function of torch/distributed/distributed_c10d.py; torch/utils/data is not a collective.",
        "nobody": "Not every stack has a frame of distributed_c10d.py, and some jobs have no "
        "stacks, or no flight recorder. Print what there is of the job.",
        "gone": "A main thread that has raised has no frame of train.py any more: it waits, in "
        "threading.py, for a thread that never ends. Where it raised is in the log, in lines that "
        "start with [rankN]:. A traceback without that was caught, and is not what you look for.",
        "ended": "With TORCH_DISTRIBUTED_DEBUG=DETAIL a mismatch is an error on every rank, and "
        "there is no process left to look at. Each rank's traceback stands for its stack: the "
        "others were in one collective, at one line. Who was in another?",
        "reported": "A rank that raises in monitored_barrier was there: it reports who was not. "
        "Compare stacks, and take a traceback only for a rank whose stack has no frame of "
        "train.py.",
        "later": "A collective with async_op=True returns at once, as those of NCCL do, and the "
        "ranks wait somewhere else. In the flight recorder, the last entry of a rank that waits is "
        "not retired, and the rank to name has no entry with this process_group and "
        "collective_seq_id. Numbers count in each group, and not every rank is in every group.",
        "frame": "The call is the function of distributed_c10d.py: all_reduce, say. The wrapper "
        "around it writes a log; train.py's own function calls it.",
        "call": "Name the collective in which the others wait, and not what the rank that does not "
        "come is doing.",
        "innermost": "The innermost frame of train.py is where the rank stands: in a stack dump "
        "the first from above, in a traceback the last. Those outside it have called it.",
        "threads": "A dump has all threads of a process. Training is in the MainThread.",
        "whose": "The line is that of the rank you name: what it does instead of coming. The "
        "others' line is where they wait.",
        "library": "Give the line of train.py, as it stands in the dump or in the traceback. A "
        "line of PyTorch or of Python's library is the same in every hang.",
        "next": "Lines in a dump and in a traceback are counted from 1, as in an editor: give the "
        "number as it stands there.",
        "raised": "Which job was it? Some have no stacks, some no flight recorder: both are dicts, "
        "and empty then.",
    },
)
