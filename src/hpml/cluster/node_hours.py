"""What a class asks of a cluster: nodes and cores at once, and node-hours at most.

Counted from the #SBATCH lines of the job scripts, with their time limits: jobs end sooner. A
scaling study submits jobs of more nodes by itself, one after another (`slurm/study.sh`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hpml.cluster.job_script import JobScript
from hpml.errors import UserError

_STUDY = re.compile(r"^study ", re.MULTILINE)  # in a job script
_LARGER = re.compile(r"^ *larger=\((\d+(?: \d+)*)\)", re.MULTILINE)  # in slurm/study.sh


@dataclass(frozen=True)
class Demand:
    """What one submission of a job script asks for: its jobs run one after another."""

    script: JobScript
    sizes: tuple[int, ...]  # the nodes of each of its jobs

    @property
    def nodes(self) -> int:
        """Nodes at once."""
        return max(self.sizes)

    @property
    def cores(self) -> int:
        """Cores at once, on all its nodes."""
        return self.nodes * self.script.tasks_per_node * self.script.cpus_per_task

    @property
    def node_hours(self) -> float:
        """At most: each job takes the whole of its time limit."""
        return sum(self.sizes) * hours(self.script.options.get("time", "0"))

    @property
    def exclusive(self) -> bool:
        """Whether its nodes may have no other job."""
        return "exclusive" in self.script.options


def demand(script: JobScript, root: Path) -> Demand:
    """What a job script asks for; `root` is the project's folder.

    Raises UserError where it is a study and slurm/study.sh does not name its sizes.
    """
    if not _STUDY.search((root / script.path).read_text(encoding="utf-8")):
        return Demand(script, (script.nodes,))
    named = _LARGER.search((root / "slurm/study.sh").read_text(encoding="utf-8"))
    if not named:
        raise UserError("slurm/study.sh: no line larger=(2 4): restore it from the repository")
    return Demand(script, (script.nodes, *map(int, named[1].split())))


def node_hours(demands: Iterable[Demand], learners: int) -> float:
    """At most, if each learner submits each script once."""
    return learners * sum(each.node_hours for each in demands)


def hours(limit: str) -> float:
    """Hours of --time as the course's scripts write it: [[HH:]MM:]SS, or minutes alone."""
    parts = [int(part) for part in limit.split(":")]
    if len(parts) == 1:
        return parts[0] / 60
    seconds = sum(part * 60**power for power, part in enumerate(reversed(parts)))
    return seconds / 3600
