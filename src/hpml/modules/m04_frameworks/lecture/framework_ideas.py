"""Ideas of frameworks that are gone, and the section of this course in which each one runs.

`framework_ideas.csv` has one row for each idea: the frameworks of `frameworks.py` that had it
(there may be others), a lecture, and one of its headings, written as in the notebook.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hpml.modules.m04_frameworks.lecture.frameworks import Framework


@dataclass(frozen=True)
class Idea:
    """One idea; `notebook` has no ending ("01_parallel_sgd"), `heading` no number signs."""

    idea: str
    frameworks: tuple[str, ...]
    notebook: str
    heading: str

    @property
    def place(self) -> str:
        """Where it runs, for a reader: "01, section 7" or, below a section, the heading."""
        module, number = self.notebook[:2], self.heading.partition(". ")[0]
        if number.isdigit():
            return f"{module}, section {number}"
        return f"{module}, {self.heading.removesuffix('*(more)*').strip()}"


@cache
def ideas() -> tuple[Idea, ...]:
    """All ideas of the table, in its order."""
    text = Path(__file__).with_name("framework_ideas.csv").read_text(encoding="utf-8")
    return tuple(
        Idea(
            idea=row["idea"],
            frameworks=tuple(row["frameworks"].split("; ")),
            notebook=row["notebook"],
            heading=row["heading"],
        )
        for row in csv.DictReader(text.splitlines())
    )


def anchor(heading: str) -> str:
    """The part of an address after "#" that leads to a heading of a notebook in JupyterLab: its
    text without marks, spaces as hyphens.

    anchor("7. Two levels *(more)*") -> "7.-Two-levels-(more)"
    """
    return heading.translate(str.maketrans("", "", "*`")).strip().replace(" ", "-")


def table(shown: Sequence[Idea], here: str) -> str:
    """The ideas as a Markdown table with links; `here` is the notebook that shows it."""
    lines = ["| idea | who had it | it runs in |", "|---|---|---|"]
    for one in shown:
        file = "" if one.notebook == here else f"{one.notebook}.ipynb"
        link = f"[{one.place}]({file}#{anchor(one.heading)})"
        lines.append(f"| {one.idea} | {', '.join(one.frameworks)} | {link} |")
    return "\n".join(lines)


def without_idea(shown: Sequence[Idea], every: Sequence[Framework]) -> list[str]:
    """The frameworks that are no longer developed and have no idea in the table."""
    had = {name for one in shown for name in one.frameworks}
    return [one.name for one in every if not one.developed and one.name not in had]
