"""The instructor's run sheet: the day on paper, made from what is committed.

For each module the clock, the questions with their answers, what the screen shows then, what is
often wrong in the core exercises and what to say, the steps on a cluster; and what to prepare the
day before. Or in brief, a page a module: what is needed in front of the class. One HTML file for
A4, without scripts, that loads nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup, escape
from nbformat import NotebookNode

from hpml.course import page, page_templates, picture
from hpml.course.instructors import (
    cluster_steps,
    core_path,
    day_clock,
    questions,
    reservation,
    typed,
    wrong_answers,
)
from hpml.course.instructors.cluster_steps import ClusterPart
from hpml.course.instructors.core_path import CorePath, Section
from hpml.course.instructors.half_line import HALF_A_LINE, LABEL, half_line
from hpml.course.schedule import Course, Exercise, Module
from hpml.errors import UserError

WRONG = 3  # wrong answers that are shown of an exercise
LINES, COLUMNS = 10, 88  # of a text that the screen shows
WIDTH = 760  # pixels of a picture: 65 mm at 300 dpi
LAST = "What to take home"  # from this section on a lecture has nothing to do

_PREDICT = re.compile(r"^Predict:? ")
_SETTING = re.compile(r"^#SBATCH --([a-z-]+)=(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """A line of a module's clock: a core section, the time for an exercise, or for the cluster."""

    at: str  # "09:12"; "0:12" where the module has no hour
    minutes: float
    title: str
    exercise: Exercise | None = None
    part: ClusterPart | None = None


@dataclass(frozen=True)
class Asked:
    """A question with its answer and what the screen shows, as safe HTML."""

    section: str
    core: bool
    question: Markup
    guess: Markup  # the question without the word Predict
    short: tuple[Markup, ...]  # each answer in half a line
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
    part: ClusterPart | None
    clock: tuple[Entry, ...]
    asked: tuple[Asked, ...]
    mistakes: Mapping[str, tuple[Mistake, ...]]  # of each core exercise
    jobs: tuple[Job, ...]
    commands: tuple[str, ...]

    @property
    def more(self) -> tuple[Section, ...]:
        """The sections that are not on the core path."""
        return tuple(section for section in self.path.sections if not section.core)

    @property
    def minutes(self) -> float:
        """What the core takes, with the part on the cluster."""
        return self.path.minutes + (self.part.minutes if self.part else 0)

    @property
    def spare(self) -> int:
        """Whole minutes that are left of the slot: the buffer. Below zero, the module is over."""
        return self.module.minutes - round(self.minutes)


def write(
    course: Course,
    hints: Mapping[str, Mapping[str, str]],
    learners: int = 30,
    brief: bool = False,
) -> str:
    """The run sheet as HTML; with `brief`, a page a module.

    `hints` are those of each exercise's check, by exercise and key. Of a cluster is counted what a
    class of so many learners needs. Raises UserError if a lecture, a list of wrong answers, the
    steps on the cluster or a job script cannot be read.
    """
    name = "run_sheet_brief.html.j2" if brief else "run_sheet.html.j2"
    environment = page_templates.environment("hpml.course.instructors")
    environment.filters["code"] = _code
    template = environment.get_template(name)
    sheets = {module.id: sheet(course, module, hints) for module in course.modules}
    return template.render(
        course=course,
        sheets=list(sheets.values()),
        day=[
            row if isinstance(row, day_clock.Pause) else sheets[row.id]
            for row in day_clock.rows(course.modules)
        ],
        plan=reservation.plan(course, learners),
        learners=learners,
        words_per_minute=core_path.WORDS_PER_MINUTE,
        lines_per_minute=core_path.LINES_PER_MINUTE,
    )


def sheet(course: Course, module: Module, hints: Mapping[str, Mapping[str, str]]) -> Sheet:
    """What the page has of one module, from its committed lecture."""
    notebook = core_path.lecture(course, module)
    path = CorePath(module, core_path.sections(notebook))
    part = cluster_steps.read(course, module)
    folder = course.root / module.notebook.parent
    return Sheet(
        module=module,
        path=path,
        part=part,
        clock=tuple(clock(path, part)),
        asked=tuple(
            _asked(section, question, folder)
            for section in path.sections
            for question in questions.of(notebook, section)
        ),
        mistakes={
            exercise.id: mistakes(course, exercise.id, hints.get(exercise.id, {}))
            for exercise in module.core
        },
        jobs=tuple(_job(course.root / script) for script in module.jobs),
        commands=typed.commands(path),
    )


def clock(path: CorePath, part: ClusterPart | None = None) -> Iterator[Entry]:
    """The core of a module in the order of the lecture, and its part on the cluster.

    An exercise comes after the last core section that names it; one that none names, after the
    last section in which something is done. Raises UserError if no core section has the title that
    the part on the cluster comes after.
    """
    titles = [section.title for section in path.core]
    if part and part.after not in titles:
        raise UserError(
            f"{cluster_steps.FILE.name}: {path.module.id}: after = {part.after!r} is not a core "
            f"section: use one of {', '.join(titles)}"
        )
    place = _places(path)
    passed = 0.0
    for number, section in enumerate(path.core):
        entries: list[tuple[float, str, Exercise | None, ClusterPart | None]]
        entries = [(section.minutes, section.title, None, None)]
        if part and section.title == part.after:
            entries.append((part.minutes, "The cluster", None, part))
        entries += [(each.minutes, each.id, each, None) for each in place.get(number, ())]
        for minutes, title, exercise, steps in entries:
            yield Entry(day_clock.at(path.module, passed), minutes, title, exercise, steps)
            passed += minutes


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


def short_answers(answers: Sequence[str]) -> list[str]:
    """Answers in half a line each, as Markdown: those with a label, **Answer.**, if there are any.

    Several share a line and a half.
    """
    labelled = [text for text in answers if LABEL.match(text)]
    shown = labelled or answers
    most = HALF_A_LINE if len(shown) == 1 else HALF_A_LINE * 2 // 3
    return [half_line(text, most) for text in shown]


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
        guess=markdown(_guess(question.text)),
        short=tuple(map(markdown, short_answers(question.answer))),
        answers=tuple(map(markdown, question.answer)),
        picture=picture.small(shown, WIDTH) if shown else "",
        text="" if shown or not section.core else next(filter(None, texts), ""),
    )


def _code(text: str) -> Markup:
    """Plain text with its `code` as HTML."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _guess(text: str) -> str:
    """A question without its first word, *Predict*."""
    rest = _PREDICT.sub("", text)
    return rest[:1].upper() + rest[1:] if rest[:1].isascii() else rest


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
