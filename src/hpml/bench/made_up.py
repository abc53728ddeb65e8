"""A synthetic class: people whose answers are right, wrong, empty, broken or hostile.

The answers are the course's solutions, and the tests' wrong answers and attacks. For each person it
is known how many points a grader may give.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from hpml import answer as learners
from hpml.bench import attacks
from hpml.checks import find
from hpml.course import wrong_answers
from hpml.course.schedule import Course

# Twenty people in order; the first twelve include every kind.
KINDS = (
    "right wrong hostile right empty wrong right broken wrong right wrong hostile "
    "right wrong right wrong right empty wrong right"
).split()


@dataclass(frozen=True)
class Person:
    """One of the class, who has earned from `least` to `most` points."""

    name: str
    kind: str
    file: str  # the notebook's text
    least: int = 0
    most: int = 0


def people(number: int, course: Course, tests: Path) -> list[Person]:
    """A class of `number` people, always the same. Each answers one exercise of the course.

    `tests` is the folder with `attacks/`. Exercises that hand a job to SLURM are left out, and so
    are attacks that may earn something.
    """
    solutions = _solutions(course)
    right = cycle(solutions.items())
    wrong = _spread(list(_wrong(course, solutions)))
    hostile = _spread(list(_hostile(tests / "attacks")))
    made = []
    for at, kind in enumerate(islice(cycle(KINDS), number), 1):
        name = f"{at:03d}-{kind}"
        if kind == "right":
            exercise, source = next(right)
            points = find(exercise).points
            made.append(Person(name, kind, _notebook(exercise, source), points, points))
        elif kind == "wrong":
            exercise, source = next(wrong)
            most = find(exercise).points - 1
            made.append(Person(name, kind, _notebook(exercise, source), most=most))
        elif kind == "hostile":
            made.append(Person(name, kind, _notebook(*next(hostile))))
        elif kind == "empty":
            module = course.module_of(next(right)[0])
            made.append(Person(name, kind, (course.root / module.exercise_notebook).read_text()))
        else:
            text = _notebook(*next(right))
            cut = at // len(KINDS) % 2  # every other one is not even JSON
            text = text[: len(text) // 2] if cut else text.replace("def ", "def def ")
            made.append(Person(name, kind, text))
    return made


def write(people: Sequence[Person], folder: Path) -> None:
    """Write each person's notebook to `folder`, under the person's name."""
    folder.mkdir(parents=True, exist_ok=True)
    for person in people:
        (folder / f"{person.name}.ipynb").write_text(person.file)


def _solutions(course: Course) -> Mapping[str, str]:
    found = {}
    for module in course.modules:
        for answer in learners.read(course.root / module.solution):
            if not find(answer.exercise).submits:
                found[answer.exercise] = answer.source.partition("\n")[2]
    return found


def _wrong(course: Course, exercises: Iterable[str]) -> Iterator[tuple[str, str]]:
    for exercise in exercises:
        solution = wrong_answers.solution(course, exercise)
        for wrong in wrong_answers.read(course, exercise):
            yield exercise, wrong.answer(solution).partition("\n")[2]


def _hostile(folder: Path) -> Iterator[tuple[str, str]]:
    for attack in attacks.read_all(folder):
        if attack.path.suffix == ".py" and not attack.expect:
            yield attack.exercise, attack.source.partition("\n")[2]


def _spread(items: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Repeat all items for ever, in an order in which neighbours differ in kind."""
    step = next(step for step in (7, 11, 13, 17) if len(items) % step)
    return cycle([items[at * step % len(items)] for at in range(len(items))])


def _notebook(exercise: str, source: str) -> str:
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": f"answer-{exercise}",
        "metadata": {},
        "outputs": [],
        "source": f"%%answer {exercise}\n{source}",
    }
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
