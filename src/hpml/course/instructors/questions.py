"""The questions of a lecture, *Predict: …*, with the answers that it prints after their cells."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from nbformat import NotebookNode

from hpml.course.instructors.core_path import PREDICT, Section, concluded


@dataclass
class Question:
    """A question, and what the lecture answers. Texts are Markdown.

    `answer` is what the cells between this question and the next conclude; where they conclude
    nothing, the paragraph that follows them. `outputs` are those of the cells, in nbformat's form.
    """

    text: str
    answer: list[str] = field(default_factory=list)
    outputs: list[NotebookNode] = field(default_factory=list)


def of(notebook: NotebookNode, section: Section) -> list[Question]:
    """The questions of one section of an executed lecture, in order."""
    found: list[Question] = []
    for piece in section.pieces:
        if not piece.text:
            if found:
                cell = notebook.cells[piece.index]
                found[-1].outputs += cell.get("outputs", [])
                found[-1].answer += concluded(cell)
            continue
        if found and found[-1].outputs and not found[-1].answer:
            found[-1].answer += [*_paragraphs(piece.text)][:1]
        for question in PREDICT.findall(piece.text):
            found.append(Question(" ".join(question.split())))
    return found


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs that are neither heading nor question."""
    for paragraph in re.split(r"\n\s*\n", PREDICT.sub("", text)):
        if paragraph.strip() and not paragraph.lstrip().startswith("#"):
            yield paragraph.strip()
