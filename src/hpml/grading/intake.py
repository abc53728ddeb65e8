"""Find and read a class's submissions: notebooks, folders, platforms' archives, nbgrader's tree.

No part of a submission is executed or imported, and no file is unpacked under a name from an
archive. A file that cannot be read is refused by name; the others are still read. Answers are found
by their ids; other cells, tags and outputs of a notebook have no effect.
"""

import difflib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpml import answer as learners
from hpml.answer import Answer, cells
from hpml.checks.registry import ids, modules, of_module
from hpml.course import schedule
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.files.sanitize import one_line
from hpml.grading import course_answers, folder
from hpml.grading.input_file import ARCHIVE, Found, is_wanted, may_hold_answers, suffix
from hpml.grading.naming import Owner, owner, safe_names
from hpml.grading.submission import Submission

LONGEST_ANSWER = 100_000  # characters; the course's longest is 4,000
NOTES = 20  # of one person; a hostile archive could have thousands

_NBGRADER = ("nbgrader_config.py", "gradebook.db", "source", "release")  # beside submitted/


@dataclass(frozen=True)
class _File:
    """A file that was read, or its fault; `parts` begins with the entry that names the owner."""

    parts: tuple[str, ...]
    where: Path  # for messages only; never opened
    answers: tuple[Answer, ...] = ()
    notes: tuple[str, ...] = ()
    uncounted: tuple[tuple[str, str], ...] = ()  # (exercise id as written, why it does not count)
    in_text: tuple[tuple[Answer, str], ...] = ()  # (answer in a text cell, why it does not count)
    readable: bool = False
    fault: str = ""

    @property
    def name(self) -> str:
        """Its path, without the part that names the owner."""
        return one_line("/".join(self.parts[1:] or self.parts))


@dataclass
class _Person:
    owner: Owner
    files: list[_File] = field(default_factory=list)


def collect(paths: Sequence[Path], scratch: Path) -> list[Submission]:
    """The submissions in `paths`, one per person, sorted by their file names.

    Each path is a notebook or percent script, a zip archive of a class, or a folder: of notebooks,
    of one folder or archive per person, or nbgrader's `submitted/`, its parent or a folder below.
    Inner archives are kept in `scratch` while they are read.

    Raises UserError if a path is missing or holds no submission, if nobody answered an exercise of
    this course, or if `scratch` is full.
    """
    people: dict[str, _Person] = {}
    for path in paths:
        for entry, read in _handed_in(path, scratch, alone=len(paths) == 1):
            people.setdefault(entry.key, _Person(entry)).files.append(read)
    names = safe_names(people)
    course = schedule.load()
    submissions = [_submission(names[key], person, course) for key, person in people.items()]
    seen = {a.exercise for person in people.values() for f in person.files for a in f.answers}
    if seen and not seen & set(ids()):
        raise UserError(
            f"{', '.join(map(str, paths[:3]))}: another course's notebooks? They answer "
            f"{', '.join(one_line(name, 40) for name in sorted(seen)[:5])}; "
            f"the exercises here are {', '.join(ids())}"
        )
    return sorted(submissions, key=lambda each: (each.person.casefold(), each.person))


def _handed_in(path: Path, scratch: Path, *, alone: bool) -> list[tuple[Owner, _File]]:
    """All files below a path, each with its owner.

    If nothing can be read there: raises UserError if it is the only path (`alone`), else the fault
    is one person's.
    """
    place = Path(os.path.abspath(path))  # links are not resolved
    at = place if place.is_dir() or suffix(place.name) == ARCHIVE else place.parent
    files = [_read(each, at) for each in _found(place, path, scratch)]
    if not any(each.readable or each.fault for each in files):
        fault = "there is no notebook (.ipynb), script (.py) or .zip in it"
    else:
        fault = next((each.fault for each in files if not each.parts), "")
    if fault and alone:
        raise UserError(f"{one_line(str(path), 400)}: {fault}")
    if fault:
        return [(owner(place.name, place.stem), _File((place.name,), place, fault=fault))]
    files = _relative_to_class(files, place)
    return [(_owner(each, at), each) for each in files]


def _found(place: Path, path: Path, scratch: Path) -> Iterator[Found]:
    """The files at a path. A fault of the path itself has no parts."""
    if place.is_symlink():
        return iter([Found((), fault="is a symbolic link: name what it leads to")])
    if not place.exists():
        raise UserError(f"{path}: no such file or folder")
    if not os.access(place, os.R_OK):
        return iter([Found((), fault="cannot be read: Permission denied")])
    if place.is_dir():
        return folder.walk(place, scratch)
    if suffix(place.name) == ARCHIVE:
        return folder.read(place, (), scratch, whole_class=True)
    if not is_wanted(place.name):
        return iter([Found((), fault="expected a notebook, a .py script, a .zip or a folder")])
    return folder.read(place, (place.name,), scratch, whole_class=True)


def _read(found: Found, at: Path) -> _File:
    """The answers in a file, and what does not count as one; its bytes are not kept."""
    where = Path(one_line(str(at.joinpath(*found.parts)), 400))
    if found.data is None:
        return _File(found.parts, where, fault=one_line(found.fault))
    notebook = suffix(found.parts[-1]) == ".ipynb"
    if b"answer" not in found.data.lower() and not notebook:  # a script that is not an answer
        return _File(found.parts, where, readable=True)
    answers, uncounted, in_text = [], [], []
    script = () if notebook else enumerate(found.data.decode(errors="replace").splitlines(), 1)
    try:
        for cell in list((cells.of_notebook if notebook else cells.of_script)(found.data)):
            number, source, kind = cell
            if kind != "code":
                if text := learners.of_text_cell(where, cell):
                    in_text.append((text, one_line(learners.text_cell(text, kind))))
                continue
            if len(source) > LONGEST_ANSWER and "%%answer" in source:
                long = f"longer than {LONGEST_ANSWER} characters and does not count"
                why = f"{one_line(where.name)}, cell {number}: the answer is {long}"
                uncounted.append((learners.exercise_of(source.lstrip()) or "", why))
                continue
            try:
                answer = learners.of_cell(where, number, source, script)
            except learners.NotCounted as error:
                uncounted.append((error.exercise, one_line(str(error))))
                continue
            if answer and not _is_text(source):
                why = f"{answer.where}: the answer is not valid Unicode text and does not count"
                uncounted.append((answer.exercise, why))
            elif answer:
                answers.append(answer)
    except cells.Unreadable as error:
        return _File(found.parts, where, fault=one_line(str(error)))
    return _File(
        found.parts,
        where,
        answers=tuple(answers),
        notes=tuple(why for _, why in uncounted),
        uncounted=tuple(uncounted),
        in_text=tuple(in_text),
        readable=True,
    )


def _is_text(source: str) -> bool:
    """Whether it can be encoded: JSON can hold half of a surrogate pair."""
    try:
        source.encode()
    except UnicodeEncodeError:
        return False
    return True


def _relative_to_class(files: list[_File], place: Path) -> list[_File]:
    """The files with paths that begin with the entry that names the owner."""
    for above in place.parents:
        # In nbgrader's submitted/<person>/<assignment>/, the path names the owner.
        if above.name == "submitted" and any((above.parent / name).exists() for name in _NBGRADER):
            inside = place.relative_to(above).parts
            inside = inside if place.is_dir() else inside[:-1]
            return [replace(each, parts=(*inside, *each.parts)) for each in files]
    while suffix(place.name) == ARCHIVE and (wrapper := _only_folder(files)):
        within = [replace(each, parts=each.parts[1:]) for each in files]
        if owner(wrapper, wrapper).name or any(_is_course_notebook(each) for each in within):
            break  # this folder is one person's
        files = within
    submitted = [each for each in files if each.parts[0] == "submitted" and each.parts[1:]]
    return [replace(each, parts=each.parts[1:]) for each in submitted] or files


def _only_folder(files: list[_File]) -> str:
    """The folder that all files lie in, if there is one."""
    first = {each.parts[0] for each in files}
    if len(first) > 1 or any(len(each.parts) == 1 for each in files):
        return ""
    return "" if suffix(name := first.pop()) == ARCHIVE else name


def _owner(read: _File, at: Path) -> Owner:
    """The owner of a file. One with a course notebook's name belongs to its folder's owner."""
    entry = read.parts[0]
    if _is_course_notebook(read):
        return owner(at.name, at.stem if suffix(at.name) == ARCHIVE else at.name)
    is_folder = len(read.parts) > 1 and suffix(entry) != ARCHIVE
    return owner(entry, entry if is_folder else Path(entry).stem)


def _is_course_notebook(read: _File) -> bool:
    name = read.parts[0] if len(read.parts) == 1 else ""
    return is_wanted(name) and Path(name).stem in modules()


def _submission(name: str, person: _Person, course: Course) -> Submission:
    """A person's files as one submission."""
    notes: list[str] = []
    if person.owner.late:
        notes.append("marked late by the platform")
    given: dict[str, list[tuple[Answer, _File]]] = defaultdict(list)
    for read in person.files:
        if read.fault:
            notes.append(f"{read.name} {read.fault}")
        notes += read.notes
        for answer in read.answers:
            given[answer.exercise].append((answer, read))
    known = ids()
    uncounted: dict[str, str] = {}
    for exercise in [exercise for exercise in given if exercise not in known][:NOTES]:
        why = f"{given[exercise][0][0].where}: {_unknown(exercise, known)}"
        notes.append(why)
        uncounted.setdefault(_nearest(exercise, known), why)
    for exercise, why in (each for read in person.files for each in read.uncounted):
        uncounted.setdefault(_nearest(exercise, known), why)
    for text, why in (each for read in person.files for each in read.in_text):
        exercise = _nearest(text.exercise, known)
        code = (answer for answer, _ in given.get(exercise, ()))
        if exercise and _is_written(text, course) and not any(_is_written(a, course) for a in code):
            notes.append(why)
            uncounted.setdefault(exercise, why)
    readable = [read for read in person.files if read.readable]
    refused = ""
    if not readable:
        faults = [f"{read.name} {read.fault}" for read in person.files if read.fault]
        names = ", ".join(read.name for read in person.files[:5])
        refused = "; ".join(faults[:5]) or f"no notebook, script or .zip is among {names}"
        notes = [note for note in notes if note not in faults]
    answers = {}
    for exercise in known:
        found = _only_one(exercise, given[exercise])
        if isinstance(found, Answer):
            answers[exercise] = found
        elif found:
            notes.append(found)
            uncounted[exercise] = found
    with_answers = [read for read in readable if read.answers or read.notes or read.in_text]
    if readable and not with_answers:
        names = ", ".join(read.name for read in readable[:5])
        notes.append(f"{names}: no cell starts with %%answer ID")
    if len(notes) > NOTES:
        notes[NOTES - 1 :] = [f"and {len(notes) - NOTES + 1} notes more"]
    return Submission(
        person=name,
        files=tuple(read.where for read in with_answers or readable),
        answers=answers,
        notes=tuple(notes),
        refused=refused,
        unread=_unread(person.files, refused),
        uncounted={e: why for e, why in uncounted.items() if e in known},
        name=person.owner.name or (one_line(person.owner.key) if name != person.owner.key else ""),
        email=person.owner.email,
    )


def _is_written(answer: Answer, course: Course) -> bool:
    return not course_answers.is_stub(answer, course)


def _unread(files: Sequence[_File], refused: str) -> dict[str, str]:
    """Why each exercise's answer may be in a file that could not be read, by exercise id.

    A file with the name of a course notebook is taken for that module's.
    """
    if refused:
        return dict.fromkeys(ids(), refused)
    unread: dict[str, str] = {}
    others = any(read.answers for read in files)
    for read in files:
        name = read.parts[-1]
        if read.fault and may_hold_answers(name, others):
            for exercise in of_module(Path(name).stem) or ids():
                unread.setdefault(exercise, f"{read.name} {read.fault}")
    return unread


def _nearest(exercise: str, known: Sequence[str]) -> str:
    """The known id that was meant; empty if there is none."""
    return next(iter(difflib.get_close_matches(exercise[:80], known, n=1)), "")


def _only_one(exercise: str, given: Sequence[tuple[Answer, _File]]) -> Answer | str | None:
    """The answer that counts; or why none does: two differ, and either could be meant.

    A file with only the stub is ignored: notebooks come paired with scripts.
    """
    if written := {id(read) for answer, read in given if not answer.is_stub}:
        given = [each for each in given if id(each[1]) in written]
    if not given:
        return None
    if len({answer.source.rstrip() for answer, _ in given}) == 1:
        return given[0][0]
    places = ", ".join(dict.fromkeys(f"{read.name} {_place(answer)}" for answer, read in given))
    return (
        f"%%answer {exercise} is there {len(given)} times, and not alike: {one_line(places)}; "
        "none of them counts: hand in one"
    )


def _place(answer: Answer) -> str:
    return answer.where.rpartition(", ")[2]


def _unknown(exercise: str, known: Sequence[str]) -> str:
    near = _nearest(exercise, known)
    meant = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
    return f"no exercise has the id {one_line(exercise, 40)!r}: {meant}"
