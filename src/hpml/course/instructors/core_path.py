"""The core path of a lecture, and whether it fits the module's slot.

A lecture's sections are its headings of two and three number signs. One that ends in *(more)* is
not on the core path, nor are its subsections; all others are. What the core takes:

- its text, read at WORDS_PER_MINUTE, and so the sentences that a cell concludes,
- the seconds that its cells ran when the lecture was built,
- its code, read at LINES_PER_MINUTE; imports and folded cells are not read,
- A_FIGURE minutes for each figure, and A_PREDICTION for each question that asks for a guess,
- the minutes of the module's core exercises.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import nbformat
from nbformat import NotebookNode

from hpml.course import folded
from hpml.course.instructors import paired, where_next
from hpml.course.schedule import Course, Module
from hpml.errors import UserError
from hpml.publish import CONCLUSION

WORDS_PER_MINUTE = 150
LINES_PER_MINUTE = 20
A_FIGURE, A_PREDICTION = 1 / 3, 3 / 4  # minutes
MORE = "*(more)*"

# Emphasis that begins with Predict, and may have **bold** and a name's own marks, *n*, in it
PREDICT = re.compile(r"(?<!\*)\*(Predict\b(?:[^*]|\*\*[^*]+\*\*|\*\w+\*)*)\*(?!\*)")

_HEADING = re.compile(r"(#{1,3}) +(.+?) *#*")
_CODE_NOT_READ = re.compile(r"^(?:from \S+ )?import (?:\([^)]*\)|.*)$|^ *#.*$", re.MULTILINE)
_FENCE = re.compile(r" {0,3}(```|~~~)")
_NOT_READ = re.compile(
    r"<!--.*?-->"  # a comment
    r"|\]\([^)\s]*\)"  # where a link leads
    r"|</?\w[^>\n]*>",  # a tag
    re.DOTALL,
)


@dataclass(frozen=True)
class Piece:
    """A Markdown text below a heading, or a code cell, whose `text` is empty.

    `index` is the place of its cell in the notebook. A Markdown cell with a heading in its middle
    is two pieces.
    """

    index: int
    text: str = ""


@dataclass(frozen=True)
class Section:
    """A heading, and what stands below it, up to the next one. What comes first has level 1."""

    title: str  # without its number signs, and without the mark
    level: int
    core: bool
    pieces: tuple[Piece, ...]
    words: int
    seconds: float  # that its cells ran
    not_timed: int  # code cells whose seconds are not recorded
    lines: int  # of code that is read
    figures: int
    predictions: int

    @property
    def minutes(self) -> float:
        """To read its text and its code, to run its cells, to look at its figures and to guess."""
        return self.words / WORDS_PER_MINUTE + self.seconds / 60 + self.looking

    @property
    def looking(self) -> float:
        """Of the minutes, those for code, figures and predictions."""
        seen = self.figures * A_FIGURE + self.predictions * A_PREDICTION
        return self.lines / LINES_PER_MINUTE + seen


@dataclass(frozen=True)
class CorePath:
    """A lecture's sections, and what the core of its module takes, in minutes."""

    module: Module
    sections: tuple[Section, ...]

    @property
    def core(self) -> tuple[Section, ...]:
        return tuple(section for section in self.sections if section.core)

    @property
    def words(self) -> int:
        return sum(section.words for section in self.core)

    @property
    def reading(self) -> float:
        return self.words / WORDS_PER_MINUTE

    @property
    def running(self) -> float:
        return sum(section.seconds for section in self.core) / 60

    @property
    def looking(self) -> float:
        return sum(section.looking for section in self.core)

    @property
    def exercises(self) -> int:
        return sum(exercise.minutes for exercise in self.module.core)

    @property
    def minutes(self) -> float:
        return self.reading + self.running + self.looking + self.exercises

    @property
    def fits(self) -> bool:
        return self.minutes <= self.module.minutes

    @property
    def not_timed(self) -> int:
        """Core code cells whose seconds are not recorded, and so are not in the sum."""
        return sum(section.not_timed for section in self.core)


def of(course: Course, module: Module) -> CorePath:
    """The core path of a module's committed lecture. Raises UserError if it cannot be read."""
    return CorePath(module, sections(lecture(course, module)))


def lecture(course: Course, module: Module) -> NotebookNode:
    """A module's committed lecture, with its outputs. Raises UserError if it cannot be read."""
    try:
        return nbformat.read(course.root / module.notebook, as_version=4)
    except FileNotFoundError:
        raise UserError(f"{module.notebook} is missing: run ./hpml build {module.id}") from None
    except Exception as error:  # nbformat raises many kinds of errors on a broken file
        raise UserError(f"{module.notebook}: not a Jupyter notebook: {error}") from None


def sections(notebook: NotebookNode) -> tuple[Section, ...]:
    """The sections of an executed lecture, in its order."""
    seconds = paired.seconds(notebook)
    made: list[Section] = []
    above: list[tuple[int, bool]] = []  # level and core of the headings that this is below
    for level, title, pieces in _headed(notebook):
        above = [(upper, core) for upper, core in above if upper < level]
        more = title.endswith(MORE)
        core = not more and all(core for _, core in above)
        above.append((level, core))
        cells = [notebook.cells[piece.index] for piece in pieces if not piece.text]
        words = sum(count_words(piece.text) for piece in pieces)
        words += sum(count_words(text) for cell in cells for text in concluded(cell))
        made.append(
            Section(
                title=title.removesuffix(MORE).rstrip(),
                level=level,
                core=core,
                pieces=pieces,
                words=words,
                seconds=round(sum(seconds.get(cell.id, 0.0) for cell in cells), 1),
                not_timed=sum(cell.id not in seconds for cell in cells),
                lines=sum(map(lines_to_read, cells)),
                figures=sum(map(_figures, cells)),
                predictions=sum(len(PREDICT.findall(piece.text)) for piece in pieces),
            )
        )
    return tuple(made)


def concluded(cell: NotebookNode) -> list[str]:
    """The sentences that a cell concludes, as the reader sees them."""
    shown = (output.get("data", {}) for output in cell.get("outputs", []))
    return ["".join(data["text/markdown"]) for data in shown if CONCLUSION in data]


def lines_to_read(cell: NotebookNode) -> int:
    """The lines of a code cell that is not folded, without imports, comments and lone brackets."""
    code = "" if folded.is_folded(cell) else _CODE_NOT_READ.sub("", cell.source)
    return sum(bool(re.search(r"\w", line)) for line in code.splitlines())


def _figures(cell: NotebookNode) -> int:
    return sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))


def count_words(text: str) -> int:
    """The words of a Markdown text: what stands between spaces and has a letter or a digit."""
    return sum(bool(re.search(r"\w", word)) for word in _NOT_READ.sub(" ", text).split())


def as_table(paths: Sequence[CorePath]) -> str:
    """A row for each module: its minutes of reading, of cells, of code with figures and
    predictions, and of exercises, their sum, the slot."""
    lines = [
        f"{'':2}  {'words':>6}{'reading':>9}{'cells':>7}{'looking':>9}{'exercises':>11}"
        f"{'sum':>7}{'slot':>6}"
    ]
    for path in paths:
        parts = f"{path.words:>6}{path.reading:>9.1f}{path.running:>7.1f}{path.looking:>9.1f}"
        parts += f"{path.exercises:>11}"
        verdict = "fits" if path.fits else f"{path.minutes - path.module.minutes:.1f} min too long"
        if path.not_timed:
            verdict += f"; without the time of {path.not_timed} cells: run ./hpml build"
        total = f"{path.minutes:>7.1f}{path.module.minutes:>6}"
        lines.append(f"{path.module.id}  {parts}{total}  {verdict}")
    return "\n".join(lines)


def of_sections(path: CorePath) -> str:
    """A row for each section of a lecture: its minutes, and of what they are."""
    lines = [f"{path.module.id}  {'min':>5}{'words':>7}{'lines':>7}{'figures':>9}{'predict':>9}"]
    for section in path.sections:
        parts = f"{section.minutes:>5.1f}{section.words:>7}{section.lines:>7}"
        parts += f"{section.figures:>9}{section.predictions:>9}"
        title = f"{'  ' * (section.level - 1)}{section.title}"
        lines.append(f"{'':4}{parts}  {title}{'' if section.core else f' {MORE}'}")
    return "\n".join(lines)


def _headed(notebook: NotebookNode) -> Iterator[tuple[int, str, tuple[Piece, ...]]]:
    """(level, title, pieces) of each heading; the heading itself is in its first piece."""
    level, title, pieces = 1, "", []
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            pieces.append(Piece(index))
        if cell.cell_type != "markdown" or where_next.is_in(cell):  # links take no time
            continue
        for heading, text in _parts(cell.source):
            if heading:
                if pieces:
                    yield level, title, tuple(pieces)
                level, title, pieces = len(heading[1]), heading[2], []
            if text.strip():
                pieces.append(Piece(index, text))
    if pieces:
        yield level, title, tuple(pieces)


def _parts(source: str) -> Iterator[tuple[re.Match[str] | None, str]]:
    """A Markdown text cut before each heading: (the heading's match, the part with it)."""
    heading, fence = None, ""
    lines: list[str] = []
    for line in source.splitlines():
        mark = _FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        found = None if fence else _HEADING.fullmatch(line.rstrip())
        if found:
            yield heading, "\n".join(lines)
            heading, lines = found, []
        lines.append(line)
    yield heading, "\n".join(lines)
