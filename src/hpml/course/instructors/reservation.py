"""What to reserve on a cluster for a class: nodes and cores at once, and node-hours at most."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpml.cluster import job_script, node_hours
from hpml.cluster.node_hours import Demand
from hpml.course.instructors import day_clock
from hpml.course.schedule import Course, Module


@dataclass(frozen=True)
class Reservation:
    """What a class asks for in one module, if each learner has one job of it at a time."""

    module: Module
    gpus: bool
    learners: int
    demands: tuple[Demand, ...]

    @property
    def when(self) -> str:
        """`13:30 to 15:00`; the slot's own words where it has no hour."""
        if day_clock.begins(self.module) is None:
            return self.module.slot
        return f"{self.module.slot} to {day_clock.at(self.module, self.module.minutes)}"

    @property
    def largest(self) -> Demand:
        return max(self.demands, key=lambda each: (each.nodes, each.cores))

    @property
    def nodes(self) -> int:
        """At once, if no two jobs share a node."""
        return self.learners * self.largest.nodes

    @property
    def cores(self) -> int:
        """At once, of the script that asks for most."""
        return self.learners * max(each.cores for each in self.demands)

    @property
    def node_hours(self) -> float:
        """At most, if each learner submits each script once."""
        return node_hours.node_hours(self.demands, self.learners)


def plan(course: Course, learners: int) -> tuple[Reservation, ...]:
    """For each module with job scripts, those for CPUs and those for GPUs.

    Raises UserError if a job script cannot be read.
    """
    return tuple(each for module in course.modules for each in _of(course, module, learners))


def _of(course: Course, module: Module, learners: int) -> Iterator[Reservation]:
    scripts = [job_script.read(path, course.root) for path in module.jobs]
    for gpus in (False, True):
        those = [script for script in scripts if script.gpus == gpus]
        demands = tuple(node_hours.demand(script, course.root) for script in those)
        if demands:
            yield Reservation(module, gpus, learners, demands)
