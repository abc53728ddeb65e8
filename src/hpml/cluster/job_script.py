"""Job scripts: which of a module's fits, and the sbatch line that submits it."""

import difflib
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.cluster.shape import Shape
from hpml.errors import UserError
from hpml.paths import CHECKOUT

_DIRECTIVE = re.compile(r"^#SBATCH --([a-z-]+)(?:=(\S+))?", re.MULTILINE)
_CPUS = ("-c", "--cpus-per-task")
_TASKS = ("-n", "--ntasks", "--ntasks-per-node")


@dataclass(frozen=True)
class JobScript:
    """A job script of the course: its path in the project, and what its #SBATCH lines ask for."""

    path: Path
    options: Mapping[str, str]

    @property
    def name(self) -> str:
        """As --job wants it: several_nodes, for 06_several_nodes.slurm."""
        return re.sub(r"^\d+_", "", self.path.stem)

    @property
    def nodes(self) -> int:
        return int(self.options.get("nodes", 1))

    @property
    def tasks_per_node(self) -> int:
        return int(self.options.get("ntasks-per-node", 1))

    @property
    def cpus_per_task(self) -> int:
        return int(self.options.get("cpus-per-task", 1))

    @property
    def gpus(self) -> bool:
        return any(name.startswith("gpus") or name == "gres" for name in self.options)


def read(path: Path, root: Path) -> JobScript:
    """The job script at `path`, relative to the project's folder `root`."""
    try:
        text = (root / path).read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: restore it from the repository") from None
    return JobScript(path, dict(_DIRECTIVE.findall(text)))


def choose(
    scripts: Sequence[JobScript],
    *,
    module: str,
    job: str | None = None,
    nodes: int | None = None,
    gpus: bool = False,
) -> JobScript:
    """The script of a module that is named `job`, or else the one that fits.

    One for several nodes where `nodes` is more than one, else one for a single node, if there is
    such a one; with GPUs only where SLURM has `gpus`. The first of several that fit. Raises
    UserError where none does.
    """
    if not scripts:
        raise UserError(f"module {module} has no job script: ./hpml list shows what it has")
    known = ", ".join(script.name for script in scripts)
    if job is not None:
        for script in scripts:
            if job in (script.name, script.path.stem, script.path.name, str(script.path)):
                return script
        raise UserError(f"--job {job}: module {module} has {known}")
    if len(scripts) == 1:
        return scripts[0]
    several = (nodes or 1) > 1
    usable = [script for script in scripts if gpus or not script.gpus]
    fit = [script for script in usable if (script.nodes > 1) == several] or usable
    if any(script.gpus for script in fit):
        fit = [script for script in fit if script.gpus]
    if not fit:
        raise UserError(
            f"module {module} has no job script for that: name one with --job, of {known}"
        )
    return fit[0]


def fitting_options(
    script: JobScript, shape: Shape, given: Sequence[str], nodes: int | None, cores: int
) -> list[str]:
    """sbatch options that make the script fit a virtual cluster's nodes, beside those `given`.

    A job script asks for a real node's cores, and a rank has a thread for each of its cores. On a
    machine of `cores` it gets fewer. Where nodes declare too few for one each, there are fewer
    ranks.
    Raises UserError where there are too few nodes for `nodes`, or for the script.
    """
    wanted = nodes or script.nodes
    if wanted > shape.nodes:
        raise UserError(
            f"{wanted} nodes are wanted, and the cluster has {shape.nodes}: give --nodes "
            f"{shape.nodes}, or ./hpml cluster down and up --nodes {wanted}"
        )
    if any(_is_option(word, (*_CPUS, *_TASKS)) for word in given):
        return []
    options = []
    tasks = script.tasks_per_node
    if tasks > shape.cpus:
        tasks = shape.cpus
        options.append(f"--ntasks-per-node={tasks}")
    if tasks * script.cpus_per_task > (most := min(shape.cpus, max(cores, tasks))):
        options.append(f"--cpus-per-task={most // tasks}")
    return options


def site_settings(script: JobScript, root: Path) -> dict[str, str]:
    """The variables that slurm/site.sh sets for this script's sbatch: SBATCH_ACCOUNT, …"""
    line = 'unset SLURM_JOB_ID; source slurm/site.sh && sbatch_settings "$1"'
    done = subprocess.run(
        ["bash", "-c", line, "site", str(script.path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=30,
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise UserError(f"slurm/site.sh cannot be read: {last[0]}")
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines())


def start_line(path: Path) -> str:
    """The first line of the command by which a job script starts its ranks.

    Without the container's variable, which is empty on most clusters. Raises UserError where the
    script has no line that begins with srun, mpirun or horovodrun.
    """
    text = path.read_text().replace('"${container[@]}" ', "")
    starts = [
        line for line in text.splitlines() if line.startswith(("srun", "mpirun", "horovodrun"))
    ]
    if not starts:
        raise UserError(f"{path.name}: nothing in it starts ranks: give a job script of slurm/")
    return starts[-1].strip(" \\")


def job_changes(old: str, new: str) -> str:
    """What `new` asks for and starts in another way than `old`: two job scripts of `slurm/`.

    A line of "-" has been in the old one, of "+" is in the new one: #SBATCH lines, and the program
    that srun starts.
    """
    texts = [(CHECKOUT / "slurm" / name).read_text("utf-8").splitlines() for name in (old, new)]
    before, after = (
        [s for s in text if s.startswith("#SBATCH") or "python -m" in s] for text in texts
    )
    lines = [line.rstrip() for line in difflib.unified_diff(before, after, n=0, lineterm="")]
    changes = [line for line in lines if not line.startswith(("---", "+++", "@@"))]
    return "\n".join([f"from {old} to {new}", *changes])


def sbatch_command(
    script: JobScript, options: Sequence[str], arguments: Sequence[str]
) -> list[str]:
    return ["sbatch", *options, str(script.path), *arguments]


def shell_line(words: Sequence[str], settings: Mapping[str, str]) -> str:
    """The shell line that runs `words` with those variables."""
    return " ".join([*(f"{k}={shlex.quote(v)}" for k, v in settings.items()), shlex.join(words)])


def _is_option(word: str, options: Sequence[str]) -> bool:
    """Whether a word is one of those options, with its value or without."""
    return any(
        word == option
        or word.startswith(f"{option}=")
        or (len(option) == 2 and word.startswith(option))
        for option in options
    )
