"""Ideas of frameworks that are gone, and the section of this course in which each one runs.

`framework_ideas.csv` has one row for each idea: the frameworks of `frameworks.py` that had it
(there may be others), a lecture, and one of its headings, written as in the notebook.
"""

import csv
from collections.abc import Mapping, Sequence
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


def nothing_lost(shown: Sequence[Idea], every: Sequence[Framework]) -> tuple[bool, str, str]:
    """For `conclude`: each framework that is no longer developed has an idea in the table."""
    had = {name for one in shown for name in one.frameworks}
    gone = [one.name for one in every if not one.developed]
    without = [name for name in gone if name not in had]
    lectures: Mapping[str, None] = dict.fromkeys(one.notebook[:2] for one in shown)
    sentence = (
        f"**Answer.** None: all {len(gone)} left one. Their {len(shown)} ideas run in the lectures "
        f"{', '.join(sorted(lectures))} of this course. A framework ends; its ideas move on."
    )
    return not without, sentence, f"no section shows an idea of {', '.join(without)}."
