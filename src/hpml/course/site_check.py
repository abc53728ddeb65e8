"""The day before: does the course run on this cluster, as slurm/site.sh describes it?

Asked of SLURM itself: whether sbatch would take each job script (`--test-only`), and what a job on
two nodes finds there. Each answer is a `Fact`, with what to do where it is red.
"""

import json
import os
import re
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hpml.cluster import job_script, node_hours, queue
from hpml.cluster.job_script import JobScript
from hpml.cluster.queue import UNFINISHED, Slurm
from hpml.doctor import Fact
from hpml.errors import UserError

WITH_GPUS = "a job on two nodes with GPUs"
COPY_FILES = 1000  # allowed for each learner: ./hpml copy makes 72, and jobs and checks add to them
FOLDER = Path("build/site_check")  # in the project: all nodes see it
# What sbatch says, and the setting of slurm/site.sh that is meant
_SETTINGS = {
    "partition": "cpu_partition=, gpu_partition=: `sinfo` lists them",
    "account": "account=, gpu_account=: `sacctmgr show associations user=$USER` lists yours",
    "qos": "qos=, gpu_qos=: `sacctmgr show qos` lists them",
    "reservation": "reservation=: `scontrol show reservation` lists them",
    "feature": 'cpu_constraint=, gpu_constraint=: `sinfo -o "%P %f"` lists them',
    "generic resource": 'gpus_per_node= or gpu_gres=: `sinfo -o "%P %G"` lists them',
    "gres": 'gpus_per_node= or gpu_gres=: `sinfo -o "%P %G"` lists them',
    "node configuration": "cpu_partition=, gpu_partition=: one with larger nodes, or smaller "
    "numbers in the scripts' own #SBATCH lines",
}


@dataclass(frozen=True)
class Site:
    """A cluster, the project's folder on it, and the job scripts there."""

    slurm: Slurm
    root: Path
    scripts: tuple[JobScript, ...]

    @cached_property
    def gpus(self) -> bool:
        return self.slurm.gpus()


def facts(site: Site, learners: int, wait: float, report: Callable[[str], None]) -> Iterator[Fact]:
    """All facts, as they become known. A job that has not started after `wait` seconds is ended,
    and is red; `report` gets a line about what is waited for."""
    try:
        for kind in (False, True):
            job_script.site_settings(JobScript(Path(_name(kind)), {}), site.root)
    except UserError as error:
        said = str(error).removeprefix("slurm/site.sh ")
        yield Fact("slurm/site.sh", said, False, _NOTHING, "mend that line", True)
        return
    yield from _scripts(site)
    for gpus in (False, True) if site.gpus else (False,):
        yield from _job(site, gpus, wait, report)
    yield _room(site, learners)
    yield _hours(site, learners)
    reach = (
        f"ssh -L 8899:localhost:8899 {socket.gethostname()}, ./hpml lab --no-browser --port 8899"
    )
    yield Fact("JupyterLab", f"{reach} (docs/site.md)", True)


_NOTHING = "no job of the course starts"


def _name(gpus: bool) -> str:
    """Of the job, by which site.sh knows its kind."""
    return f"site_check{'_gpu' * gpus}.slurm"


# Job scripts


def _scripts(site: Site) -> Iterator[Fact]:
    """Whether sbatch would take them: those that it refuses for one reason together."""
    for gpus, kind in ((False, "job scripts"), (True, "job scripts for GPUs")):
        those = [script for script in site.scripts if script.gpus == gpus]
        if gpus and not site.gpus:
            cost = "the scripts that end in _gpu.slurm cannot run"
            yield Fact(kind, "no node here has GPUs", False, cost, "nothing, if that is so")
            continue
        refused: dict[str, list[str]] = defaultdict(list)
        for script in those:
            if said := _refusal(site, script):
                refused[said].append(script.path.name)
        taken = len(those) - sum(map(len, refused.values()))
        if taken:
            yield Fact(kind, f"sbatch would take {taken} of {len(those)}", True)
        for said, names in refused.items():
            more = f" and {len(names) - 1} more" if names[1:] else ""
            value = f"sbatch refuses {names[0]}{more}: {said}"
            yield Fact(kind, value, False, "these cannot be submitted", setting_for(said), not gpus)


def _refusal(site: Site, script: JobScript) -> str:
    """What sbatch says against the script with the site's settings; "" where it would take it."""
    options = ["--test-only"]
    if site.slurm.shape is not None:
        try:
            shape = site.slurm.shape
            options += job_script.fitting_options(script, shape, (), None, shape.cpus)
        except UserError as error:
            return str(error)
    words = job_script.sbatch_command(script, options, ())
    settings = job_script.site_settings(script, site.root)
    done = site.slurm.run(*words, more=settings, cwd=site.root)
    if not done.returncode:
        return ""
    return _said(done.stderr.strip() or f"exit code {done.returncode}")


def _said(text: str) -> str:
    """sbatch's last line, without the words before its reason."""
    before = r"^((allocation failure|sbatch: error|Batch job submission failed): )*"
    return re.sub(before, "", text.splitlines()[-1])


def setting_for(said: str) -> str:
    """What to edit where sbatch has said this."""
    for word, setting in _SETTINGS.items():
        if word in said.lower():
            return f"in slurm/site.sh: {setting}"
    return "see what sbatch says; part 1 of slurm/site.sh is what it is told"


# A job on two nodes


def _job(site: Site, gpus: bool, wait: float, report: Callable[[str], None]) -> Iterator[Fact]:
    kind = WITH_GPUS if gpus else "a job on two nodes"
    path = FOLDER / _name(gpus)
    try:
        (site.root / FOLDER).mkdir(parents=True, exist_ok=True)
        (site.root / path).write_text(_text(gpus))
    except OSError as error:
        raise UserError(
            f"{site.root / path} cannot be written ({error.strerror}): ./hpml copy FOLDER makes a "
            "copy of the course that is yours; check there"
        ) from None
    settings = job_script.site_settings(JobScript(path, {}), site.root)
    try:
        job = queue.submit(site.slurm, ["sbatch", str(path)], settings, site.root)
    except UserError as error:
        said = _said(str(error))
        yield Fact(kind, f"sbatch refuses it: {said}", False, _NOTHING, setting_for(said), True)
        return
    report(f"job {job} is in the queue, on two nodes; it is given {wait:g} s to start")
    try:
        state, started = _ended(site.slurm, job, wait)
    finally:
        site.slurm.run("scancel", job)
    yield from seen(kind, state, started, site.root / FOLDER / job)


def _text(gpus: bool) -> str:
    lines = [
        "#!/bin/bash",
        "#SBATCH --job-name=site_check",
        f"#SBATCH --output={FOLDER}/%j.out",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --cpus-per-task=1",
        "#SBATCH --mem-per-cpu=3G",
        "#SBATCH --time=00:05:00",
        *(["#SBATCH --gpus-per-node=1"] if gpus else []),
        "set -e",
        "source slurm/site.sh",
        'srun --cpus-per-task=1 --mpi=none --kill-on-bad-exit=1 "${container[@]}" '
        f'python -m hpml.course.site_probe "{FOLDER}/$SLURM_JOB_ID"',
    ]
    return "\n".join(lines) + "\n"


def _ended(slurm: Slurm, job: str, wait: float) -> tuple[str, float | None]:
    """The job's last state, with its reason, and after how many seconds it was seen to have
    started; None where it had not within `wait` seconds."""
    began, started = time.monotonic(), None
    while True:
        parts = queue.parts(slurm, job)
        state, reason = parts[0]
        passed = time.monotonic() - began
        if started is None and state not in ("PENDING", "CONFIGURING"):
            started = passed
        if state not in UNFINISHED:
            return state, started
        if (started is None and passed > wait) or passed > wait + 300:
            return f"{state} ({reason})", started
        time.sleep(0.5 if slurm.shape else 3.0)


def seen(kind: str, state: str, started: float | None, folder: Path) -> Iterator[Fact]:
    """What the job was, and what its ranks have left in `folder`."""
    if started is None:
        fix = "wait longer with --wait; another partition or reservation= in slurm/site.sh"
        value = f"has not started: {state}"
        yield Fact(kind, value, False, "learners wait as long for each job", fix, True)
        return
    said = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    met = max((each["ranks"] for each in said), default=0)
    if state != "COMPLETED" or met < 2:
        last = _last(folder.with_suffix(".out"))
        value, fix = f"{state}: {last}", _remedy(last, bool(said), folder)
        yield Fact(kind, value, False, _NOTHING, fix, True)
    else:
        nodes = " and ".join(each["node"] for each in said)
        value = f"started after {started:.0f} s on {nodes}; {met} ranks met over "
        value += f"{said[0]['by']} in {said[0]['seconds']:.1f} s"
        lacks = kind == WITH_GPUS and said[0]["by"] != "nccl"
        fix = "a torch for these GPUs and their driver; --nv or --rocm in container_options"
        cost = "torch sees no GPU there"
        yield Fact(kind, value, not lacks, *((cost, fix, True) if lacks else ()))
    yield from _differing(kind, {each["node"]: each["facts"] for each in said})


def _last(log: Path) -> str:
    """The line of the log that says most: an error's, or the last one that is not SLURM's own."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(slurm/site\.sh|[\w.]*Error|hpml\.\S+): ", line)]
    others = [line for line in lines if not line.startswith(("srun: ", "slurmstepd"))]
    return next(iter([*errors[-1:], *others[-1:], *lines[-1:]]), "it has printed nothing")[:300]


def _remedy(last: str, came: bool, folder: Path) -> str:
    """`came`: the course's Python was there, and ranks did not meet."""
    if last.startswith("slurm/site.sh"):
        return "part 2 of slurm/site.sh says where the software comes from"
    if came:
        return "network_interface= in slurm/site.sh: the fast one of `ip -brief address` on a node"
    return f"its log is {folder.with_suffix('.out')}"


def _differing(kind: str, nodes: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[Fact]:
    """What ./hpml doctor finds red on a node, once for all nodes that say the same."""
    found: dict[Fact, list[str]] = defaultdict(list)
    for node, facts in nodes.items():
        for fact in (Fact(**each) for each in facts):
            no_matter = fact.name == "GPUs" and kind != WITH_GPUS
            if not fact.ok and not no_matter:
                found[fact].append(node)
    for fact, where in found.items():
        named = f"{fact.name} on {' and '.join(sorted(where))}"
        if fact.name == "data":
            remedy = "data= in slurm/site.sh: a folder with CIFAR-10 that all nodes see"
            # One that was named, and is not there
            fact = replace(fact, remedy=remedy, needed="HPML_DATA" in fact.value)
        yield replace(fact, name=named)


# For a class


def _room(site: Site, learners: int) -> Fact:
    """Whether the file system has room for the learners' files."""
    free = os.statvfs(site.root).f_favail
    files = sum(len(names) for _, _, names in os.walk(site.root / ".venv"))
    shared = f"{files:,} files of .venv once" if files else "the environment's files once"
    value = f"{learners} learners with up to {COPY_FILES:,} files each, and {shared}; "
    value += f"{free:,} are free here"
    fix = "another file system; each learner's quota: docs/site.md, One installation for a class"
    return Fact("files", value, not free or free > learners * COPY_FILES, "jobs fail", fix)


def _hours(site: Site, learners: int) -> Fact:
    """What it costs if each learner submits each script once, and each takes its whole limit."""
    kinds = {"CPU": False} | ({"GPU": True} if site.gpus else {})
    costs = []
    for kind, gpus in kinds.items():
        those = [script for script in site.scripts if script.gpus == gpus]
        total = node_hours.node_hours((node_hours.demand(s, site.root) for s in those), learners)
        costs.append(f"{total:,.0f} node-hours for {len(those)} {kind} scripts")
    value = f"at most {' and '.join(costs)}, each once for each of {learners} learners"
    return Fact("cost", value, True)
