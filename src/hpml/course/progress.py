"""What a learner has done so far, kept in HPML_HOME/progress.json.

One entry per exercise that was checked or whose hint was read: the best points, whether it was
passed, the hints for the last check's failures, the hints already read, whether the course's answer
was read before a pass, and which text was judged last. A pass stays a pass when a later try fails.
"""

import fcntl
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from hpml.checks import hint_texts
from hpml.course import class_record
from hpml.course.schedule import Course, Exercise, Module
from hpml.files import atomic
from hpml.paths import home

if TYPE_CHECKING:  # it would import torch
    from hpml.checks.verdict import Verdict


class Entry(TypedDict):
    """One exercise's state; hints by their keys."""

    earned: int  # the most points of any try
    points: int
    passed: bool
    failed_hints: list[str]  # of the last try, in the order of its claims
    read_hints: list[str]
    hints_ended: bool  # the last hint was read once
    answer_first: bool  # the course's answer was read before a pass; nothing depends on it
    judged: str  # the `fingerprint` of the text that was judged last


def read() -> dict[str, Entry]:
    """Progress by exercise id; empty at the beginning."""
    return _load(_path())


def fingerprint(source: str) -> str:
    """A hash of an answer's text below its magic line, the same in a notebook and in a script."""
    return hashlib.sha256(source.partition("\n")[2].strip().encode()).hexdigest()[:16]


def record(verdict: "Verdict", source: str = "") -> None:
    """Record a verdict on `source`. One that is not gradable changes nothing, unless all claims
    that could be judged hold: then there is no more to do on this machine. A class that shares a
    folder (`hpml.course.class_record`) has a line on every verdict.

    Safe for several processes at the same time.
    """
    if verdict.status != "not gradable" or verdict.nothing_failed:
        _keep(verdict, source)
    if class_record.is_wanted():
        class_record.append(verdict, len(read().get(verdict.exercise, _fresh())["read_hints"]))


def _keep(verdict: "Verdict", source: str) -> None:
    with _changing() as progress:
        entry = progress.setdefault(verdict.exercise, _fresh())
        entry["earned"] = max(entry["earned"], verdict.earned)
        entry["points"] = verdict.points
        entry["passed"] = entry["passed"] or verdict.nothing_failed
        keys = [claim.hint_key for claim in verdict.claims if claim.hint_key]
        entry["failed_hints"] = list(dict.fromkeys(keys))
        entry["judged"] = fingerprint(source)


def next_hint(exercise: str, known: dict[str, str]) -> tuple[str, int] | None:
    """The key of the next hint to read, and how many are left after it; None after the last.

    `known` are the check's hints by key. "start" comes first, then those for the last check's
    failures, then how to go on. After the last one they begin again.
    """
    with _changing() as progress:
        entry = progress.setdefault(exercise, _fresh())
        unread = _unread(entry, known)
        if not unread:
            entry["read_hints"] = []
            return None
        entry["read_hints"].append(unread[0])
        entry["hints_ended"] = entry["hints_ended"] or len(unread) == 1
        return unread[0], len(unread) - 1


def open_answer(exercise: str, known: dict[str, str]) -> int:
    """How many hints are to be read before the course's answer: none after a pass, or once the last
    hint was read. Then it is noted that the answer is read.

    `known` are the check's hints by key.
    """
    with _changing() as progress:
        entry = progress.setdefault(exercise, _fresh())
        done = entry["passed"] or entry["hints_ended"]
        left = 0 if done else len(_unread(entry, known))
        entry["answer_first"] = entry["answer_first"] or not (left or entry["passed"])
        return left


def core_path(course: Course) -> str:
    """Where the learner stands on the core path, in one sentence; empty if there is none."""
    progress = read()
    left = [entry for entry in course.core if not progress.get(entry.id, _fresh())["passed"]]
    if not course.core:
        return ""
    passed = f"Core path: {len(course.core) - len(left)} of {len(course.core)} exercises passed"
    if not left:
        return f"{passed}. All else is more."
    return f"{passed}, next: {left[0].id} ({left[0].minutes} min)."


def milestone(course: Course, exercise: str) -> str:
    """The sentence for what `exercise` completes: a module's core path, the module or the day.

    Empty if none is complete.
    """
    progress = read()

    def passed(exercises: Iterable[Exercise]) -> bool:
        return all(progress.get(entry.id, _fresh())["passed"] for entry in exercises)

    def done(module: Module) -> bool:
        return passed(module.exercises)

    module = course.module_of(exercise)
    if all(done(module) for module in course.modules):
        return f"Every exercise of the day is done: {course.points} points."
    if done(module):
        return f"Module {module.id}, {module.title}, is done: {module.points} points."
    if course.exercise(exercise).core and passed(module.core):
        return f"The core path of module {module.id}, {module.title}, is done."
    return ""


def after_a_pass(course: Course, exercise: str) -> list[str]:
    """The lines below a verdict that passes: what is completed, how much is done, what is next."""
    return [*filter(None, [milestone(course, exercise)]), standing(course, exercise)]


def next_in_module(course: Course, exercise: str) -> Exercise | None:
    """The exercise of the same module that comes after this one; None where all others are done.

    Core exercises come first, and after the last one it begins again. Who has passed this one is
    sent to a core exercise that is not done, if there is one.
    """
    progress = read()
    module = course.module_of(exercise)
    every = [*module.core, *(entry for entry in module.exercises if not entry.core)]
    at = next(index for index, entry in enumerate(every) if entry.id == exercise)
    others = [*every[at + 1 :], *every[:at]]
    left = [entry for entry in others if not progress.get(entry.id, _fresh())["passed"]]
    if progress.get(exercise, _fresh())["passed"]:
        left.sort(key=lambda entry: not entry.core)
    return left[0] if left else None


def standing(course: Course, exercise: str) -> str:
    """How many exercises are done, and what comes after `exercise`, in one line.

    Next is one of the same module. Where that is done it is the first core exercise that is not,
    and then whatever else is not: those after `exercise` first. Its notebook is then named.
    """
    progress = read()
    every = [(module, entry) for module in course.modules for entry in module.exercises]
    done = {entry.id for _, entry in every if progress.get(entry.id, _fresh())["passed"]}
    core = [entry.id for entry in course.core]
    count = f"{len(done)} of {len(every)} done"
    if core:
        count += f" (core {len(done.intersection(core))} of {len(core)})"
    at = next(index for index, (_, entry) in enumerate(every) if entry.id == exercise)
    left = [(m, entry) for m, entry in [*every[at:], *every[:at]] if entry.id not in done]
    if not left:
        return f"{count}."
    here = next_in_module(course, exercise)
    wanted = here.id if here else next((name for name in core if name not in done), None)
    module, following = next((x for x in left if x[1].id == wanted), left[0])
    what = f"{'core' if following.core else 'more'}, {following.minutes} min"
    where = "" if module == course.module_of(exercise) else f", in {module.exercise_notebook}"
    return f"{count}; next: {following.id} ({what}){where}"


def _unread(entry: Entry, known: dict[str, str]) -> list[str]:
    queue = dict.fromkeys(["start", *entry["failed_hints"], *hint_texts.STEPS])
    return [key for key in queue if key in known and key not in entry["read_hints"]]


def _fresh() -> Entry:
    return Entry(
        earned=0,
        points=0,
        passed=False,
        failed_hints=[],
        read_hints=[],
        hints_ended=False,
        answer_first=False,
        judged="",
    )


def _path() -> Path:
    return home() / "progress.json"


def _load(path: Path) -> dict[str, Entry]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): _entry(kept) for name, kept in content["exercises"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # Lost progress is better than a check that fails: put the file aside and start anew.
        if path.is_file():
            path.replace(path.with_name("progress.unreadable.json"))
        return {}


def _entry(kept: dict[str, Any]) -> Entry:
    return Entry(
        earned=int(kept["earned"]),
        points=int(kept["points"]),
        passed=bool(kept["passed"]),
        failed_hints=[str(key) for key in kept["failed_hints"]],
        read_hints=[str(key) for key in kept["read_hints"]],
        hints_ended=bool(kept.get("hints_ended")),  # older files lack it
        answer_first=bool(kept.get("answer_first")),
        judged=str(kept.get("judged", "")),
    )


@contextmanager
def _changing() -> Iterator[dict[str, Entry]]:
    path = _path()
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        progress = _load(path)
        yield progress
        text = json.dumps({"version": 1, "exercises": progress}, indent=1, sort_keys=True)
        atomic.write_text(path, text + "\n")
