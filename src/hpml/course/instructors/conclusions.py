"""What the committed lectures conclude from their measurements: see `hpml.publish.conclude`."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpml.course.instructors import core_path
from hpml.course.schedule import Course, Module
from hpml.publish import CONCLUSION


@dataclass(frozen=True)
class Conclusion:
    """A sentence that rests on a measurement, in the section that it stands in."""

    section: str
    core: bool
    cell: int  # of all cells of the notebook, counted from 1
    held: bool
    text: str  # that is shown: the sentence, or what was seen instead


def of(course: Course, module: Module) -> tuple[Conclusion, ...]:
    """The conclusions of a module's committed lecture. Raises UserError if it cannot be read."""
    return tuple(_conclusions(course, module))


def _conclusions(course: Course, module: Module) -> Iterator[Conclusion]:
    notebook = core_path.lecture(course, module)
    for section in core_path.sections(notebook):
        for piece in section.pieces:
            if piece.text:
                continue
            for output in notebook.cells[piece.index].get("outputs", []):
                data = output.get("data", {})
                if CONCLUSION in data:
                    text = " ".join("".join(data["text/markdown"]).split())
                    held = bool(data[CONCLUSION]["held"])
                    yield Conclusion(section.title, section.core, piece.index + 1, held, text)
