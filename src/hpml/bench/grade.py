"""Submissions per minute: the grader, beside `nbgrader autograde` on the same files.

nbgrader's check cells do what a course without this rank engine would write (see
`hpml.bench.spawned`): new processes for every launch. They do less, too: no sandbox, no ledger, no
injected waits. The grader is measured with one worker, with more, and as the two parts of
a job array.

Then a whole class, with right, wrong, empty, broken and hostile submissions mixed, while the
grader's memory is watched.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import nbformat
import psutil
from nbformat import NotebookNode

from hpml.answer import exercise_of
from hpml.bench import made_up
from hpml.bench.attacks import LIMITS
from hpml.bench.nbgrader_course import NbgraderCourse
from hpml.bench.table import Row, Table, machine_conditions
from hpml.course import schedule
from hpml.course.graded import CHECK, SETUP
from hpml.course.schedule import Course, Module
from hpml.errors import UserError
from hpml.grading import batch, intake, sandbox
from hpml.grading.judging import Judge
from hpml.grading.record import Record
from hpml.grading.submission import Submission

MODULE = "06"
STAND_IN = "%load_ext hpml.bench.spawned"
LOOK_EVERY = 0.1  # seconds between two looks at the grader's memory
MIB = 2**20

BY_NBGRADER = "nbgrader autograde"


@dataclass
class _Watch:
    """Follows a batch: its times, and the memory of the grader's processes."""

    say: Callable[[str], None] = lambda line: None
    total: int = 0
    done: int = 0
    up: float = 0.0  # seconds until the first worker was ready
    took: float = 0.0
    peaks: list[int] = field(default_factory=lambda: [0] * 4)  # bytes, by quarter of the batch

    def started(self, total: int, kept: int) -> None:
        self.total = total

    def graded(self, record: Record, done: int, total: int, elapsed: float) -> None:
        if done == 1:
            self.up = elapsed - record.seconds
        if done * 10 // total > (done - 1) * 10 // total:
            self.say(f"{done} of {total} graded")
        self.done, self.took = done, elapsed

    def look(self) -> None:
        """Record the grader's memory: this process and its workers, without sandboxes."""
        if self.total:
            quarter = min(4 * self.done // self.total, 3)
            self.peaks[quarter] = max(self.peaks[quarter], _memory())


def bench(
    submissions: int | None = None,
    by_nbgrader: int = 1,
    class_size: int = 200,
    only: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> Table:
    """Measure with so many right submissions (default: three for each core), and with a class.

    A submission answers all exercises of module 06, or `only` those. nbgrader grades the first
    `by_nbgrader` of them, and is left out where that is 0. `say` is called with lines of progress.

    Raises UserError where there can be no sandbox, or a right answer gets less than full marks.
    """
    if why := sandbox.missing():
        raise UserError(f"bench grade: no sandbox: {why}")
    conditions = machine_conditions()
    conditions["software"] += f", nbgrader {version('nbgrader')}"
    conditions["sandbox"] = "; ".join(sandbox.layers())
    cores = len(os.sched_getaffinity(0))
    submissions = submissions or 3 * cores
    course = schedule.load()
    module = course.module(MODULE)
    exercises = [e.id for e in module.exercises if not only or e.id in only]
    points = sum(course.exercise(exercise).points for exercise in exercises)
    conditions["a submission"] = f"right answers to {', '.join(exercises)}: {points} points"
    conditions["nbgrader's checks"] = (
        "the same ones at the same world sizes, on ranks from torch.multiprocessing.spawn; without "
        "sandbox, ledger, network and injected waits, which the grader has"
    )
    conditions["taken"] = f"{submissions} submissions by the grader, {by_nbgrader} by nbgrader"
    with tempfile.TemporaryDirectory(prefix="hpml-bench-") as scratch:
        school = NbgraderCourse(Path(scratch, "course"))
        _hand_in(school, course, module, exercises, submissions)
        rows = []
        if by_nbgrader:
            rows.append(_by_nbgrader(school, module, points, by_nbgrader, say))
        found = intake.collect([school.submitted], Path(scratch))
        for jobs in sorted({1, 2, min(4, cores), cores}):
            rows += _by_jobs(found, course, exercises, points, jobs, cores, Path(scratch), say)
        rows.append(_as_array(school, exercises, submissions, cores, Path(scratch), say))
        if class_size:
            made_rows, made_of = _class(class_size, course, cores, Path(scratch), say)
            rows += made_rows
            conditions["class"] = made_of
    if not by_nbgrader:
        rows = [replace(row, base=None) if row.base == BY_NBGRADER else row for row in rows]
    return Table("How many submissions are graded in a minute", rows, conditions)


def _hand_in(
    school: NbgraderCourse, course: Course, module: Module, exercises: Sequence[str], number: int
) -> None:
    """An assignment whose checks start their own ranks, and `number` right submissions."""
    name = module.exercise_notebook.stem
    notebook = nbformat.read(course.root / module.solution, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if _belongs(cell, exercises)]
    (setup,) = [cell for cell in notebook.cells if SETUP.search(cell.source)]
    setup.source = STAND_IN
    school.write(notebook, "source", name, f"{name}.ipynb")
    school.run("generate_assignment", name)
    for person in range(1, number + 1):
        school.write(notebook, "submitted", f"person{person:02d}", name, f"{name}.ipynb")


def _belongs(cell: NotebookNode, exercises: Sequence[str]) -> bool:
    check = CHECK.fullmatch(cell.source.strip())
    exercise = check[1] if check else exercise_of(cell.source)
    return exercise is None or exercise in exercises


def _by_nbgrader(
    school: NbgraderCourse, module: Module, points: int, number: int, say: Callable[[str], None]
) -> Row:
    name = module.exercise_notebook.stem
    people = [f"person{person:02d}" for person in range(1, number + 1)]
    began = time.monotonic()
    for person in people:
        school.run("autograde", name, f"--student={person}")
    took = time.monotonic() - began
    marks = school.marks()
    for person in people:
        score, _ = marks[person]
        if score != points:
            why = "; ".join(school.errors(person, name))
            raise UserError(
                f"bench grade: nbgrader gives {person} {score:g} of {points} points: {why}"
            )
    say(f"nbgrader: {number} graded in {took:.0f} s")
    return Row(BY_NBGRADER, [60 * number / took], "per minute")


def _by_jobs(
    submissions: Sequence[Submission],
    course: Course,
    exercises: Sequence[str],
    points: int,
    jobs: int,
    cores: int,
    scratch: Path,
    say: Callable[[str], None],
) -> list[Row]:
    watch = _Watch()
    judge = Judge(course, exercises, limits=sandbox.shared_by(jobs))
    found = batch.grade(submissions, judge, scratch / f"jobs{jobs}", watch, jobs=jobs)
    _hold(found, points)
    say(f"./hpml grade --jobs {jobs}: {len(found)} graded in {watch.took:.0f} s")
    rate = 60 * len(found) / watch.took
    name = f"./hpml grade --jobs {jobs}"
    if jobs != cores:
        return [Row(name, [rate], "per minute", base=BY_NBGRADER)]
    target = "at least 10 ×" + ("; 15 per minute" if cores == 2 and points == 85 else "")
    ready = 60 * len(found) / (watch.took - watch.up)
    return [
        Row(name, [rate], "per minute", base=BY_NBGRADER, target=target),
        Row(f"{name}, once workers are up", [ready], "per minute", base=BY_NBGRADER),
    ]


def _as_array(
    school: NbgraderCourse,
    exercises: Sequence[str],
    number: int,
    cores: int,
    scratch: Path,
    say: Callable[[str], None],
) -> Row:
    """Grade two parts side by side, as two nodes would, and merge them."""
    jobs = max(1, cores // 2)
    out = scratch / "array"
    grade = [sys.executable, "-m", "hpml", "grade", "--out", str(out)]
    options = ["--jobs", str(jobs)]
    options += [word for exercise in exercises for word in ("--only", exercise)]
    began = time.monotonic()
    commands = [[*grade, str(school.submitted), "--part", f"{part}/2", *options] for part in (1, 2)]
    parts = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    try:
        codes = [part.wait(timeout=3600) for part in parts]
    finally:
        for part in parts:
            part.kill()
            part.wait()
    merged = subprocess.run([*grade, "--merge"], stdout=subprocess.DEVNULL, timeout=600)
    took = time.monotonic() - began
    if any(codes) or merged.returncode:
        raise UserError(f"bench grade: the parts of an array ended with {codes}, {merged}")
    say(f"an array of two parts: {number} graded and merged in {took:.0f} s")
    name = f"an array of two, --jobs {jobs} each, and --merge"
    return Row(name, [60 * number / took], "per minute", base=BY_NBGRADER)


def _hold(records: Sequence[Record], points: int) -> None:
    for record in records:
        if record.earned != points:
            said = next((r.headline for r in record.results if r.status != "passed"), "")
            raise UserError(
                f"bench grade: {record.person} has {record.earned} of {points} points: {said}"
            )


def _class(
    size: int, course: Course, cores: int, scratch: Path, say: Callable[[str], None]
) -> tuple[list[Row], str]:
    """Rows on a class, and its composition in words."""
    people = made_up.people(size, course, course.root / "tests")
    made_up.write(people, scratch / "class")
    submissions = intake.collect([scratch / "class"], scratch)
    exercises, _ = batch.exercises_of(submissions, course)
    watch = _Watch(say)
    over = threading.Event()
    looking = threading.Thread(target=_look, args=(watch, over), daemon=True)
    looking.start()
    try:
        judge = Judge(course, exercises, limits=LIMITS)
        found = batch.grade(submissions, judge, scratch / "graded", watch, jobs=cores)
    finally:
        over.set()
        looking.join()
    counts = verdicts(people, found)
    for what, names in counts.items():
        if names:
            say(f"{what}: {', '.join(names)}")
    whole = f"a class of {size}"
    first = f"{whole}: the grader's memory, first quarter"
    rows = [Row(whole, [60 * size / watch.took], "per minute")]
    rows += [Row(f"{whole}: {w}", [len(n)], "people", target="0") for w, n in counts.items()]
    rows.append(Row(first, [watch.peaks[0] / MIB], "MiB"))
    for number, peak in zip(("second", "third", "last"), watch.peaks[1:], strict=True):
        name = f"{whole}: the grader's memory, {number} quarter"
        rows.append(Row(name, [peak / MIB], "MiB", base=first, target="as the first"))
    kinds = Counter(person.kind for person in people)
    said = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return rows, (
        f"{said}; each answers one exercise of {len(exercises)}, --jobs {cores}; at most "
        f"{LIMITS.memory // MIB} MiB and {LIMITS.wall:.0f} s for one; the grader's memory is the "
        "peak resident set of its main process and workers added up, without sandboxes"
    )


def verdicts(people: Sequence[made_up.Person], records: Sequence[Record]) -> dict[str, list[str]]:
    """The people with a wrong verdict, by kind of error. All lists should be empty."""
    by_name = {record.person: record for record in records}
    return {
        "could not be graded": [p.name for p in people if not by_name[p.name].complete],
        "more points than earned": [p.name for p in people if by_name[p.name].earned > p.most],
        "fewer points than earned": [p.name for p in people if by_name[p.name].earned < p.least],
    }


def _look(watch: _Watch, over: threading.Event) -> None:
    while not over.wait(LOOK_EVERY):
        watch.look()


def _memory() -> int:
    """Bytes of this process, its workers and their fork servers, without sandboxes."""
    total = 0
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        try:
            if process == me or "forkserver" in " ".join(process.cmdline()):
                total += process.memory_info().rss
        except psutil.Error:
            continue
    return total
