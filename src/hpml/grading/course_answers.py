"""The stub that was handed out and the course's own solution of each exercise."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from hpml import answer as answers
from hpml.answer import Answer
from hpml.course.schedule import Course


def is_stub(answer: Answer, course: Course) -> bool:
    """Whether the answer is what was handed out, untouched."""
    files = tuple(course.root / module.exercise_notebook for module in course.modules)
    return answer.source.strip() == _sources(files).get(answer.exercise)


def solution(exercise: str, course: Course) -> str:
    """The source of the course's own solution."""
    return _sources(tuple(course.root / module.solution for module in course.modules))[exercise]


@cache
def _sources(files: tuple[Path, ...]) -> Mapping[str, str]:
    return {each.exercise: each.source.strip() for file in files for each in answers.read(file)}
