"""Whatever the seed, the right answer is right, and a wrong one meets its own hint.

`tests/test_course.py` proves as much for one seed; here there are several, since the jobs, clusters
and networks of module 08 are drawn.
"""

import pytest

from hpml.answer import as_python
from hpml.checks import find
from hpml.course import schedule
from hpml.course.instructors import wrong_answers

SEEDS = {"choose_layout": 4, "find_the_knee": 5, "fit_alpha_beta": 5, "predict_scaling": 4}
WRONG = [
    wrong
    for exercise in SEEDS
    for wrong in wrong_answers.read(schedule.load(), exercise)
    if wrong.hint != "import"  # is refused before it is played
]


@pytest.fixture
def check(exercise):
    return find(exercise)


@pytest.mark.parametrize("exercise", SEEDS)
def test_the_right_answer_is_right(exercise, right_answer, played_here):
    assert not any(any(played_here(right_answer, seed)) for seed in range(SEEDS[exercise]))


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    [pytest.param(wrong.exercise, wrong, id=f"{wrong.exercise}-{wrong.name}") for wrong in WRONG],
)
def test_a_wrong_answer_gets_its_hint(exercise, wrong, solution, played_here):
    source = as_python(wrong.answer(solution(exercise)))
    for seed in range(SEEDS[exercise]):
        assert next(filter(None, played_here(source, seed)), "") == wrong.hint, seed
