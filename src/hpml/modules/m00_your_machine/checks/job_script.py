"""job_script: the text of a job script for given nodes, tasks, cores, time and array parts.

`job_script(name, nodes, tasks_per_node, cpus_per_task, minutes, parts, command) -> str`. Its
#SBATCH lines are read as sbatch reads them; then, if a SLURM answers, a small one is submitted.
"""

import random
import secrets
from collections import Counter
from dataclasses import replace
from types import ModuleType
from typing import Any

from hpml.checks.compare import described
from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m00_your_machine.checks import _sbatch as sbatch
from hpml.modules.m00_your_machine.checks import _slurm_job as slurm_job

ASKED = {"nodes": "nodes", "ntasks-per-node": "tasks_per_node", "cpus-per-task": "cpus_per_task"}
# What can be seen of a script where no SLURM runs it. Others (mpirun) may start tasks, too.
_NO_SRUN = "no line of the script has srun, and a script itself runs once, on the first node"
# The job's command: each task prints one line, with a word that the answer does not know.
REPORT = """\
echo "{word} ${{SLURM_ARRAY_TASK_ID-none}} ${{SLURM_PROCID-none}} ${{SLURMD_NODENAME-none}}"
"""


def inputs(seed: int, world_size: int) -> list[list[dict[str, Any]]]:
    """The jobs to write scripts for: two whose numbers are all different, one of one node and one
    part for more than a day, and one that is run."""
    rng = random.Random(seed)
    jobs = []
    for _ in range(2):
        nodes, tasks, cpus, parts = rng.sample(range(2, 10), 4)
        jobs.append(_job(rng, nodes, tasks, cpus, rng.randrange(10, 180), parts))
    tasks, cpus = rng.sample(range(2, 10), 2)
    jobs.append(_job(rng, 1, tasks, cpus, rng.randrange(1500, 6000), 1))
    tasks, cpus = rng.choice([(1, 2), (2, 1)])
    jobs.append(_job(rng, 2, tasks, cpus, rng.randrange(3, 9), 2))
    return [jobs]


def _job(rng: random.Random, nodes: int, tasks: int, cpus: int, minutes: int, parts: int) -> dict:
    name = f"{rng.choice(['sweep', 'train', 'scan'])}{rng.randrange(100)}"
    return {
        "name": name,
        "nodes": nodes,
        "tasks_per_node": tasks,
        "cpus_per_task": cpus,
        "minutes": minutes,
        "parts": parts,
        "command": f"bash report{rng.randrange(100)}.sh",
    }


def drive(answer: ModuleType, jobs: list[dict[str, Any]]) -> list[Any]:
    return [answer.job_script(**job) for job in jobs]


def expect(inputs: list[list[dict[str, Any]]], world_size: int) -> list[dict[str, Any]]:
    return inputs[0]


def requests(run: Run) -> tuple[list[tuple[dict, sbatch.Request]], Problem | None]:
    """Each job and its script's request, or the Problem of a script that cannot be read."""
    texts = run.values[0]
    if not isinstance(texts, list) or len(texts) != len(run.expected):
        return [], Problem(f"the answer's ranks returned {described(texts)}", "text")
    found = []
    for job, text in zip(run.expected, texts, strict=True):
        if not isinstance(text, str):
            return [], Problem(f"job_script returned {described(text)}, not a str", "text")
        try:
            found.append((job, sbatch.read(text)))
        except ValueError as error:
            return [], Problem(str(error), "refused" if text.startswith("#!") else "shebang")
    return found, None


def judge_resources(run: Run) -> Problem | None:
    found, problem = requests(run)
    if problem:
        return problem
    for job, request in found:
        for option, name in ASKED.items():
            text, wanted = request.options.get(option), job[name]
            if text is None:
                return _missing(option, request)
            if text not in (str(wanted), f"{wanted}-{wanted}" if option == "nodes" else ""):
                others = [other for key, other in job.items() if key in ASKED.values()]
                return Problem(
                    f"for {_said(job)}: --{option}={text}",
                    "swapped" if text in map(str, others) else "number",
                    str(wanted),
                )
        if "ntasks" in request.options:
            total = job["nodes"] * job["tasks_per_node"]
            if request.options["ntasks"] != str(total):
                text = request.options["ntasks"]
                return Problem(f"for {_said(job)}: --ntasks={text}", "ntasks", str(total))
    return None


def _missing(option: str, request: sbatch.Request) -> Problem:
    line = next((line for line in request.ignored if f"--{option}" in line), None)
    if line is not None:
        return Problem(f"sbatch does not read the line {line!r}", "ignored")
    if option == "ntasks-per-node" and "ntasks" in request.options:
        total = request.options["ntasks"]
        return Problem(f"--ntasks={total} says how many in all, not how many per node", "ntasks")
    return Problem(f"--{option} is not asked for", "missing")


def _said(job: dict[str, Any]) -> str:
    names = (*ASKED.values(), "minutes", "parts")
    return ", ".join(f"{name}={job[name]}" for name in names)


def judge_time(run: Run) -> Problem | None:
    found, problem = requests(run)
    if problem:
        return problem
    for job, request in found:
        limit = request.options.get("time")
        if limit is None:
            return _missing("time", request)
        seconds = sbatch.seconds(limit)
        if seconds is None:
            return Problem(f"--time={limit} is not a time that sbatch knows", "time")
        if seconds != 60 * job["minutes"]:
            minutes, rest = divmod(seconds, 60)
            took = f"{minutes} min" + f" {rest} s" * bool(rest)
            return Problem(f"--time={limit} is {took}", "time", f"{job['minutes']} min")
    return None


def judge_array(run: Run) -> Problem | None:
    found, problem = requests(run)
    if problem:
        return problem
    for job, request in found:
        text = request.options.get("array")
        if text is None:
            return _missing("array", request)
        wanted = list(range(job["parts"]))
        if (indices := sbatch.array_parts(text)) != wanted:
            seen = "nothing that sbatch knows" if indices is None else _parts(indices)
            return Problem(f"--array={text} is {seen}", "array", _listed(wanted))
    for job, request in found:
        pattern = request.options.get("output")
        if pattern is None:
            return _missing("output", request)
        name = request.options.get("job-name", "job.slurm")
        for part in range(job["parts"]):
            # Parts get the next free job ids; the last part has the array's own.
            own = 4711 if part == job["parts"] - 1 else 4712 + part
            log = sbatch.log_name(pattern, name=name, array=4711, part=part, job=own)
            wanted = f"{job['name']}-4711_{part}.log"
            if log != wanted:
                message = f"--output={pattern}: part {part} of job 4711 ({own}) writes to {log!r}"
                return Problem(message, "log", repr(wanted))
    return None


def _parts(indices: list[int]) -> str:
    return f"part{'s' * (len(indices) != 1)} {_listed(indices)}"


def _listed(indices: list[int]) -> str:
    """The indices as text, at most a few of them."""
    short = len(indices) > 2 and indices == list(range(indices[0], indices[-1] + 1))
    if short:
        return f"{indices[0]} to {indices[-1]}"
    if len(indices) > 20:
        return f"{indices[0]} to {indices[-1]}, {len(indices)} of them"
    return " and ".join(map(str, indices)) or "none"


def judge_submitted(run: Run) -> Problem | CannotJudge | None:
    for judge in (judge_resources, judge_time, judge_array):
        if problem := judge(run):
            return replace(problem, message=f"not submitted: {problem.message}")
    job, script = run.expected[-1], run.values[0][-1]
    word = secrets.token_hex(8)
    files = {job["command"].split()[-1]: REPORT.format(word=word)}
    done = slurm_job.submit(script, files)
    if isinstance(done, CannotJudge):
        return done if "srun" in script else CannotJudge(f"{done.why}; {_NO_SRUN}")
    if done.refused:
        reference = slurm_job.submit(right(**job), files, test_only=True)
        if isinstance(reference, CannotJudge) or reference.refused:
            return CannotJudge(f"the SLURM here takes no such job: {done.refused}")
        return Problem(f"sbatch refused it: {done.refused}", "refused")
    return _judge_ended(job, done, word)


def _judge_ended(
    job: dict[str, Any], done: slurm_job.Submission, word: str
) -> Problem | CannotJudge | None:
    """Compare a job that SLURM accepted with what was asked for."""
    for part in done.parts:
        if not done.ended and part.state == "RUNNING":
            return Problem(
                f"part {part.index} was still running after {slurm_job.PATIENCE:g} s", "limit"
            )
    for part in done.parts:
        if not done.ended:
            why = part.facts.get("Reason", "None")
            return CannotJudge(f"the job was {part.state} ({why}) for {slurm_job.PATIENCE:g} s")
        if part.state in ("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "CANCELLED"):
            return CannotJudge(f"part {part.index} ended as {part.state}")
    wanted = {
        "NumNodes": str(job["nodes"]),
        "CPUs/Task": str(job["cpus_per_task"]),
        "TimeLimit": f"00:{job['minutes']:02}:00",
    }
    for part in done.parts:
        log = done.files.get(f"{job['name']}-{part.facts.get('ArrayJobId')}_{part.index}.log")
        if log is None:
            written = ", ".join(sorted(name for name in done.files if name.endswith(".log")))
            return Problem(f"part {part.index} left no log; there is {written or 'none'}", "log")
        if part.state != "COMPLETED":
            last = log.strip().splitlines()[-1:] or ["nothing"]
            return Problem(f"part {part.index} is {part.state}; its log ends: {last[0]}", "failed")
        for key, value in wanted.items():
            if part.facts.get(key) != value:
                seen = f"scontrol show job: {key}={part.facts.get(key)}"
                return Problem(seen, "number", value)
        problem = _judge_log(job, part.index, log, word)
        if problem:
            return problem
    if len(done.parts) != job["parts"]:
        return Problem(f"{len(done.parts)} parts ran", "array", str(job["parts"]))
    return None


def _judge_log(job: dict[str, Any], part: int, log: str, word: str) -> Problem | None:
    """Whether each task's line is in the part's log exactly once."""
    lines = [line.split() for line in log.splitlines() if line.startswith(word)]
    total = job["nodes"] * job["tasks_per_node"]
    where = f"the log of part {part}"
    if len(lines) != total:
        times = f"{len(lines)} time{'s' * (len(lines) != 1)}"
        message, hint = f"{where}: the command ran {times}", "srun" if len(lines) <= 1 else "once"
        return Problem(message, hint, f"{total}, once per task")
    if any(len(line) != len(REPORT.split()) - 1 for line in lines):
        return Problem(f"{where} has a line that is not the command's", "once")
    if {line[1] for line in lines} != {str(part)}:
        return Problem(f"{where} has lines of other parts", "log")
    if sorted(line[2] for line in lines) != sorted(map(str, range(total))):
        return Problem(f"{where}: some task ran it twice and another not at all", "once")
    per_node = Counter(line[3] for line in lines)
    if sorted(per_node.values()) != [job["tasks_per_node"]] * job["nodes"]:
        seen = ", ".join(f"{count} on {node}" for node, count in sorted(per_node.items()))
        wanted = f"{job['tasks_per_node']} on each of {job['nodes']} nodes"
        return Problem(f"{where}: tasks ran {seen}", "once", wanted)
    return None


def right(
    name: str,
    nodes: int,
    tasks_per_node: int,
    cpus_per_task: int,
    minutes: int,
    parts: int,
    command: str,
) -> str:
    """A correct script, to find out whether this machine's SLURM accepts such jobs."""
    return (
        f"#!/bin/bash\n#SBATCH --nodes={nodes} --ntasks-per-node={tasks_per_node}\n"
        f"#SBATCH --cpus-per-task={cpus_per_task} --time={minutes} --array=0-{parts - 1}\n"
        f"#SBATCH --output={name}-%A_%a.log\nsrun {command}\n"
    )


CHECK = Check(
    submits=True,
    id="job_script",
    title="A job script asks for what the job needs",
    names=("job_script",),
    to_write="the text of the job script",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
    worlds=(1,),
    process_group=False,
    claims=(
        Claim("it asks for nodes, tasks on each, and cores for each", 2, judge_resources),
        Claim("a part may take so many minutes", 1, judge_time),
        Claim("it is an array, and each part has a log of its own", 1, judge_array),
        Claim("submitted, each task of each part runs the command once", 2, judge_submitted),
    ),
    hints={
        "start": "Which of the arguments does each #SBATCH line take? After '#!/bin/bash', which "
        "must come first, write one line for each of --job-name, --nodes, --ntasks-per-node, "
        "--cpus-per-task, --time, --array and --output, with f'...{nodes}', and last the "
        "command. slurm/00_hello.slurm has most.",
        "text": "Return the script as one str, its lines ended by \\n.",
        "shebang": "The first line says which program reads the script: #!/bin/bash, with nothing "
        "in front of it. A text that begins after three quotes begins with an empty line, unless "
        "a backslash follows the quotes.",
        "ignored": "A request begins with #SBATCH in the first column, no space after the #, and "
        "stands before the first command. Anything else is a comment to sbatch, and it does not "
        "say so: the job gets the default.",
        "missing": "What is not asked for is the site's default, mostly one node, one task and one "
        "core. `man sbatch` has every option; one that is misspelt is refused.",
        "number": "Each number is an argument of job_script: put it into the line with an f-string "
        "instead of typing it.",
        "swapped": "Nodes are machines; tasks are the processes that srun starts on each of them; "
        "CPUs are cores for the threads of one task. One of them stands where another belongs.",
        "ntasks": "--ntasks counts tasks over all nodes. To have the same number on each of them, "
        "ask for --ntasks-per-node.",
        "time": "A number alone is minutes. With one colon it is minutes:seconds, and only with "
        "two hours:minutes:seconds: 00:30 is half a minute. Days stand before a dash: 1-02:00:00.",
        "array": "--array=0-3 is four parts, 0, 1, 2 and 3: both ends count, and the first is 0 "
        "here. --array=4 is one part, whose number is 4. An array may have one part, 0.",
        "log": "In --output, %A is the array's job number, the same for all parts, and %a the "
        "number of the part. %x is the name that --job-name gives. %j is another number for each "
        "part, and without %a all of them write into one file.",
        "refused": "What sbatch said names the line that it cannot take.",
        "srun": "A job script runs once, on the first of its nodes. It is `srun` in front of a "
        "command that starts one process per task, on all of them.",
        "once": "One `srun` in front of the command starts all tasks; it knows from the #SBATCH "
        "lines how many and where.",
        "failed": "The job began and then failed. The last line of its log is where to look first.",
        "limit": "The script has to end when its command has.",
    },
)
