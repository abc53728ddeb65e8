"""The instructor's run sheet: the day on paper, made from what is committed.

For each module the clock, the questions with their answers, what the screen shows then, what is
often wrong in the core exercises and what to say; and what to prepare the day before. One HTML file
for A4, without scripts, that loads nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup
from nbformat import NotebookNode

from hpml.course import page, page_templates, picture
from hpml.course.instructors import core_path, questions, wrong_answers
from hpml.course.instructors.core_path import CorePath, Section
from hpml.course.schedule import Course, Exercise, Module

WRONG = 3  # wrong answers that are shown of an exercise
LINES, COLUMNS = 10, 88  # of a text that the screen shows
WIDTH = 760  # pixels of a picture: 65 mm at 300 dpi
LAST = "What to take home"  # from this section on a lecture has nothing to do

_CLOCK = re.compile(r"(\d\d):(\d\d)")
_SETTING = re.compile(r"^#SBATCH --([a-z-]+)=(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A line of a module's clock: a core section or, with an `exercise`, the time for it."""

    at: str  # "09:12"; "0:12" where the module has no hour
    minutes: float
    title: str
    exercise: Exercise | None = None


@dataclass(frozen=True)
class Asked:
    """A question with its answer and what the screen shows, as safe HTML."""

    section: str
    core: bool
    question: Markup
    answers: tuple[Markup, ...]
    picture: str  # a data: address, or ""
    text: str  # what a cell printed, where it drew nothing


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people write, and what to say."""

    wrong: str
    say: str


@dataclass(frozen=True)
class Job:
    """A job script: what its first comment says it is for, and what it asks SLURM for."""

    file: str
    what: str
    asks: str


@dataclass(frozen=True)
class Sheet:
    """What the page has of one module."""

    module: Module
    path: CorePath
    clock: tuple[Entry, ...]
    asked: tuple[Asked, ...]
    mistakes: Mapping[str, tuple[Mistake, ...]]  # of each core exercise
    more: tuple[str, ...]  # titles of the sections that are not on the core path
    jobs: tuple[Job, ...]


def write(course: Course, hints: Mapping[str, Mapping[str, str]]) -> str:
    """The run sheet as HTML. `hints` are those of each exercise's check, by exercise and key.

    Raises UserError if a lecture, or a list of wrong answers, cannot be read.
    """
    template = page_templates.environment("hpml.course.instructors").get_template(
        "run_sheet.html.j2"
    )
    return template.render(
        course=course,
        sheets=[sheet(course, module, hints) for module in course.modules],
        words_per_minute=core_path.WORDS_PER_MINUTE,
        lines_per_minute=core_path.LINES_PER_MINUTE,
    )


def sheet(course: Course, module: Module, hints: Mapping[str, Mapping[str, str]]) -> Sheet:
    """What the page has of one module, from its committed lecture."""
    notebook = core_path.lecture(course, module)
    path = CorePath(module, core_path.sections(notebook))
    folder = course.root / module.notebook.parent
    return Sheet(
        module=module,
        path=path,
        clock=tuple(clock(path)),
        asked=tuple(
            _asked(section, question, folder)
            for section in path.sections
            for question in questions.of(notebook, section)
        ),
        mistakes={
            exercise.id: mistakes(course, exercise.id, hints.get(exercise.id, {}))
            for exercise in module.core
        },
        more=tuple(section.title for section in path.sections if not section.core),
        jobs=tuple(_job(course.root / script) for script in module.jobs),
    )


def clock(path: CorePath) -> Iterator[Entry]:
    """The core of a module in the order of the lecture.

    An exercise comes after the last core section that names it; one that none names, after the
    last section in which something is done.
    """
    place = _places(path)
    passed = 0.0
    for number, section in enumerate(path.core):
        yield Entry(_at(path.module, passed), section.minutes, section.title)
        passed += section.minutes
        for exercise in place.get(number, ()):
            yield Entry(_at(path.module, passed), exercise.minutes, exercise.id, exercise)
            passed += exercise.minutes


def mistakes(course: Course, exercise: str, hints: Mapping[str, str]) -> tuple[Mistake, ...]:
    """The first wrong answers of the catalogue that need different words; none without one."""
    return tuple(by_hint(course, exercise, hints).values())[:WRONG]


def by_hint(course: Course, exercise: str, hints: Mapping[str, str]) -> dict[str, Mistake]:
    """The first wrong answer of the catalogue that meets each hint; empty without a catalogue.

    Those that are against a rule, and have no hint of the exercise's own, are left out.
    """
    found: dict[str, Mistake] = {}
    for each in wrong_answers.read(course, exercise):
        if each.hint in hints:
            found.setdefault(each.hint, Mistake(each.wrong, hints[each.hint]))
    return found


def begins(module: Module) -> int | None:
    """The minute of the day at which a module begins; None where it has no hour."""
    found = _CLOCK.fullmatch(module.slot)
    return int(found[1]) * 60 + int(found[2]) if found else None


def _places(path: CorePath) -> dict[int, list[Exercise]]:
    """The core exercises, by the number of the core section that they come after."""
    texts = ["\n".join(piece.text for piece in section.pieces) for section in path.core]
    titles = [section.title for section in path.core]
    taught = range(titles.index(LAST) if LAST in titles else len(titles))
    place: dict[int, list[Exercise]] = {}
    earliest = 0
    for exercise in path.module.core:
        named = [n for n in taught if f"`{exercise.id}`" in texts[n]]
        earliest = max(earliest, (named or taught or [0])[-1])  # the order of the day
        place.setdefault(earliest, []).append(exercise)
    return place


def _at(module: Module, passed: float) -> str:
    first = begins(module)
    hours, minutes = divmod((first or 0) + round(passed), 60)
    return f"{hours}:{minutes:02d}" if first is None else f"{hours:02d}:{minutes:02d}"


def _asked(section: Section, question: questions.Question, folder: Path) -> Asked:
    def markdown(text: str) -> Markup:
        return page.markdown(text, folder, link=lambda target: target)

    pictures = (picture.address(output.get("data", {})) for output in question.outputs)
    shown = next(filter(None, pictures), "") if section.core else ""
    texts = (_printed(output) for output in question.outputs)
    return Asked(
        section=section.title,
        core=section.core,
        question=markdown(question.text),
        answers=tuple(map(markdown, question.answer)),
        picture=picture.small(shown, WIDTH) if shown else "",
        text="" if shown or not section.core else next(filter(None, texts), ""),
    )


def _printed(output: NotebookNode) -> str:
    """The first lines that a cell printed; "" where it printed nothing."""
    if output.output_type != "stream" or output.name != "stdout":
        return ""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", output.text).rstrip().splitlines()
    shown = [line if len(line) <= COLUMNS else line[: COLUMNS - 1] + "…" for line in lines[:LINES]]
    return "\n".join([*shown, *(["…"] if len(lines) > LINES else [])])


def _job(script: Path) -> Job:
    text = script.read_text(encoding="utf-8")
    comment: Sequence[str] = re.findall(r"^#(?: (.*))?$", text.split("\n#\n")[0], re.MULTILINE)
    what = re.sub(r"^Module \d\d\. ", "", " ".join(comment).strip())
    settings = dict(_SETTING.findall(text))
    asks = [
        f"{settings[key]} {words if settings[key] != '1' else words.removesuffix('s')}"
        for key, words in (("nodes", "nodes"), ("ntasks-per-node", "ranks on each"))
        if key in settings
    ]
    asks += [f"at most {settings['time']}"] if "time" in settings else []
    return Job(script.name, what, ", ".join(asks))
