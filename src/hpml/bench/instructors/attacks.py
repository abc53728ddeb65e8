"""What a grader must survive: every hostile submission there is, among honest ones, in one batch.

Each attack is handed in by a person of its own, with an honest submission among every few of them.
`Outcome` has the results.
"""

import contextlib
import json
import secrets
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
import psutil

from hpml import answer as learners
from hpml.bench.instructors import honest as right_answers
from hpml.bench.instructors.hostile import Attack, read_all
from hpml.bench.table import Row, Table, machine_conditions
from hpml.checks import find
from hpml.checks.contract import Check
from hpml.checks.run_check import Examined, examine
from hpml.course import schedule
from hpml.files.sanitize import one_line
from hpml.grading import batch, intake, sandbox
from hpml.grading.judging import Examine, Judge, examine_fully
from hpml.grading.record import Record
from hpml.paths import CHECKOUT
from hpml.ranks.processes import become_subreaper

BESIDE = 16  # attacks per honest submission
BRIEFLY = 8.0  # seconds for a launch
LARGEST = 200_000  # characters of what a record says of an exercise, without the answer
CANARY = "hpml-canary"  # attacks look for this name
# Per submission: enough for four ranks, and low enough that attacks reach them soon
LIMITS = sandbox.Limits(
    memory=1536 * sandbox.MIB, processes=200, processor=120, wall=120, disk=64 * sandbox.MIB
)


@dataclass(frozen=True)
class Outcome:
    """The results of a batch of attacks. All but `records` should be empty."""

    records: dict[str, Record]  # by person: an attack's name, or somebody honest
    unearned: dict[str, int] = field(default_factory=dict)  # points, by attack
    harmed: tuple[str, ...] = ()  # what was read, written, reached or left behind, in words
    marked_down: tuple[str, ...] = ()  # people with a right answer and less than full marks


def bench(
    jobs: int = 2,
    names: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> tuple[Table, bool]:
    """All attacks or those in `names`, `jobs` at a time: the table, and whether all is well."""
    conditions = machine_conditions()
    attacks = [each for each in read_all() if not names or each.name in names]
    began = time.monotonic()
    outcome = run(attacks, jobs=jobs, say=say)
    conditions |= {
        "limits of one submission": f"{LIMITS.memory // sandbox.MIB} MiB, {LIMITS.processes} "
        f"processes, {LIMITS.processor:.0f} s of processor time, {LIMITS.wall:.0f} s",
        "sandbox": "; ".join(sandbox.layers()),
        "at a time": str(jobs),
        "took": f"{time.monotonic() - began:.0f} s",
    }
    conditions |= {f"unearned, {name}": f"{n} points" for name, n in outcome.unearned.items()}
    down = [f"{name}: {_lost(outcome.records[name])}" for name in outcome.marked_down]
    for title, said in (("harm", outcome.harmed), ("marked down", down)):
        conditions |= {f"{title} {n}": text for n, text in enumerate(said, 1)}
    hostile = sum(not each.is_right for each in attacks)
    rows = [
        Row("attacks tried", [hostile], "attacks"),
        Row("unearned points given", [sum(outcome.unearned.values())], "points", target="0"),
        Row("others harmed", [len(outcome.harmed)], "cases", target="0"),
        Row("honest submissions", [len(outcome.records) - hostile], "submissions"),
        Row("honest marked down", [len(outcome.marked_down)], "submissions", target="0"),
    ]
    good = not (outcome.unearned or outcome.harmed or outcome.marked_down)
    return Table("Hostile submissions among honest ones", rows, conditions), good


def run(
    attacks: Sequence[Attack],
    *,
    jobs: int = 2,
    limits: sandbox.Limits = LIMITS,
    examine: Examine = examine_fully,
    shared: bool = False,
    say: Callable[[str], None] = print,
) -> Outcome:
    """Hand in the attacks, with honest neighbours, and grade them all in one batch.

    Each of the honest answers every exercise that is attacked; with `shared`, each exercise is
    answered by one of them.
    """
    course = schedule.load()
    exercises = tuple(dict.fromkeys(each.exercise for each in attacks))
    become_subreaper()  # a process that outlives its sandbox becomes our child
    with tempfile.TemporaryDirectory(prefix="hpml-attacks-") as name, _canaries() as canaries:
        handed_in, out = Path(name, "submitted"), Path(name, "out")
        handed_in.mkdir()
        honest = _hand_in(attacks, exercises, handed_in, shared)
        submissions = intake.collect([handed_in], Path(name))
        judge = Judge(course, exercises, limits=limits, examine=examine)
        records = batch.grade(submissions, judge, out, _Listener(say), jobs=jobs)
        harmed = canaries.harm(_said(records))
    by_person = {record.person: record for record in records}
    lost = [name for name in (*honest, *(a.name for a in attacks)) if name not in by_person]
    harmed += [f"{name} has no record" for name in lost]
    harmed += [f"{r.person} could not be graded: {_why(r)}" for r in records if not r.complete]
    harmed += [f"the record of {r.person} is {n} long" for r in records for n in _too_long(r)]
    earned = {each.name: by_person[each.name].earned for each in attacks if each.name not in lost}
    too_much = {a: earned.get(a.name, 0) - a.expect for a in attacks}
    points = {name: sum(find(each).points for each in own) for name, own in honest.items()}
    down = [name for name in honest if name not in lost and by_person[name].earned < points[name]]
    return Outcome(
        by_person,
        unearned={a.name: more for a, more in too_much.items() if more > 0},
        harmed=tuple(harmed),
        marked_down=(*down, *(a.name for a in attacks if a.is_right and too_much[a] < 0)),
    )


def examine_briefly(exercise: str | Check, source: str, seed: int) -> Examined:
    """At two world sizes, and with injected waits, in less time: for tests."""
    check = exercise if isinstance(exercise, Check) else find(exercise)
    worlds = [world for world in check.worlds if world in (2, 3)] or check.worlds
    check = replace(check, timeout=min(check.timeout, BRIEFLY))
    return examine(check, source, worlds=worlds, seed=seed, delayed=True, proxied=True)


def _why(record: Record) -> str:
    return "; ".join(each.headline for each in record.results if each.status == "not gradable")


def _lost(record: Record) -> str:
    """The exercises without full marks, and what was said of each."""
    less = [each for each in record.results if each.points and each.earned < each.points]
    return "; ".join(f"{each.exercise} {each.status}, {each.headline}" for each in less)


def _hand_in(
    attacks: Sequence[Attack], exercises: Sequence[str], folder: Path, shared: bool
) -> dict[str, Sequence[str]]:
    """Write a notebook per attack, and honest ones in between.

    The first of the honest has the course's solutions, the others right answers in unusual styles.
    Returns which exercises each of them answers, by name: all, or with `shared` a part.
    """
    solved = {
        answer.exercise: answer.source
        for module in schedule.load().modules
        for answer in learners.read(CHECKOUT / module.solution)
        if answer.exercise in exercises
    }
    styles = {exercise: [source] for exercise, source in solved.items()}
    for answer in right_answers.read_all():
        if answer.exercise in styles:
            styles[answer.exercise].append(answer.source)
    names = [f"{attack.name}_neighbour" for attack in attacks[BESIDE // 2 :: BESIDE]] or ["honest"]
    every, parts = tuple(styles), len(names) if shared else 1
    honest: dict[str, Sequence[str]] = {
        name: every[number % parts :: parts] for number, name in enumerate(names)
    }
    for number, (name, own) in enumerate(honest.items()):
        answers = [styles[exercise][number % len(styles[exercise])] for exercise in own]
        _write(folder / f"{name}.ipynb", answers)
    for attack in attacks:
        if attack.source:
            _write(folder / f"{attack.name}.ipynb", [attack.source])
        else:
            shutil.copy(attack.path, folder)
    return honest


def _said(records: Sequence[Record]) -> str:
    """All text of the records, without the answers themselves."""
    return json.dumps([_results(record) for record in records])


def _results(record: Record) -> list[dict[str, Any]]:
    return [result | {"answer": ""} for result in record.as_json()["results"]]


def _too_long(record: Record) -> list[int]:
    lengths = [len(json.dumps(result)) for result in _results(record)]
    return [length for length in lengths if length > LARGEST]


def _write(path: Path, cells: Sequence[str]) -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    nbformat.write(notebook, path)


@dataclass
class _Canaries:
    """Things that no answer may read, write, reach or leave behind."""

    token: str
    files: list[Path]
    sources: dict[Path, tuple[int, int]]
    processes: set[int]
    reached: list[str] = field(default_factory=list)

    def harm(self, said: str) -> list[str]:
        """The harm done to them, in words; `said` is the text of the records."""
        found = [f"{what} was reached from a sandbox" for what in dict.fromkeys(self.reached)]
        if self.token in said or f"{CANARY}-read" in said:
            found.append("an answer has read what it must not see: its record has it")
        found += [f"{path} was changed" for path in self.files if _text(path) != self.token]
        if (pickled := Path.home() / f"{CANARY}-pickle").exists():
            found.append(f"{pickled} was made: somebody unpickled an answer's object")
        after = _sources()
        found += [
            f"{path} was changed"
            for path in self.sources.keys() | after.keys()
            if self.sources.get(path) != after.get(path)
        ]
        left = [p for p in psutil.Process().children(recursive=True) if p.pid not in self.processes]
        return found + [f"process {p.pid} was left behind" for p in left if _runs(p)]


@contextlib.contextmanager
def _canaries() -> Iterator[_Canaries]:
    token = f"{CANARY}-{secrets.token_hex(12)}"
    files = [Path.home() / token, CHECKOUT / token]
    there = {process.pid for process in psutil.Process().children(recursive=True)}
    with contextlib.ExitStack() as stack:
        for path in files:
            path.write_text(token)
            stack.callback(path.unlink, missing_ok=True)
        canaries = _Canaries(token, files, _sources(), there)
        for address in (("127.0.0.1", 0), f"\0{token}"):
            family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
            listener = stack.enter_context(socket.socket(family))
            listener.bind(address)
            listener.listen()
            stack.callback(listener.shutdown, socket.SHUT_RDWR)  # wakes the thread in `accept`
            what = f"the listener at {listener.getsockname()!r}"
            threading.Thread(
                target=_listen, args=(listener, what, canaries.reached), daemon=True
            ).start()
        yield canaries


def _listen(listener: socket.socket, what: str, reached: list[str]) -> None:
    with contextlib.suppress(OSError):  # it was closed
        while True:
            listener.accept()[0].close()
            reached.append(what)


def _sources() -> dict[Path, tuple[int, int]]:
    """When each file of the course was last written, and its size."""
    folders = ("src", "solutions", "exercises", "notebooks", "tests", "slurm")
    files = [path for folder in folders for path in (CHECKOUT / folder).rglob("*")]
    files += CHECKOUT.glob("*.*")
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_size)
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        return str(error)


def _runs(process: psutil.Process) -> bool:
    """Whether it runs, and is none of multiprocessing's own helper processes."""
    try:
        if process.ppid() == psutil.Process().pid:
            kept = ("resource_tracker", "multiprocessing.forkserver")
            if any(name in " ".join(process.cmdline()) for name in kept):
                return False
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class _Listener:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def started(self, total: int, kept: int) -> None:
        self._say(f"{total} submissions")

    def graded(self, record: Record, done: int, total: int, elapsed: float) -> None:
        answered = [result for result in record.results if result.status != "missing"]
        said = answered[0].headline if answered else "no answer"
        marks = f"{record.earned:2} of {sum(result.points for result in answered):2}"
        self._say(f"{done:3}/{total}  {marks}  {record.person:32} {one_line(said, 110)}")
