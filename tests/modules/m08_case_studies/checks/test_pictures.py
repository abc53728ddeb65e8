"""What the pictures of find_the_knee and choose_layout say of a choice, right or wrong."""

import pytest

from hpml.answer import as_python
from hpml.checks import find
from hpml.course import schedule
from hpml.course.instructors import wrong_answers
from hpml.modules.m08_case_studies.checks import _knee_picture as knees
from hpml.modules.m08_case_studies.checks import _layout_picture as layouts
from hpml.modules.m08_case_studies.checks.instructors._knee_cases import cheapest, gains, knee
from hpml.modules.m08_case_studies.checks.instructors.choose_layout import pictured as priced
from hpml.modules.m08_case_studies.checks.instructors.find_the_knee import pictured

EXERCISES = ("find_the_knee", "choose_layout")


def drawn(exercise: str, wrong: str = "") -> bytes:
    course = schedule.load()
    source = wrong_answers.solution(course, exercise)
    for one in wrong_answers.read(course, exercise):
        if one.name == wrong:
            source = one.answer(source)
    check = find(exercise)
    return check.picture(check, as_python(source)).png


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_right_answer_has_a_picture(exercise):
    assert drawn(exercise).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("exercise", "wrong"),
    [
        ("find_the_knee", "nodes_ignored_in_the_bill"),
        ("choose_layout", "no_activations"),
        ("choose_layout", "all_live"),
    ],
)
def test_a_wrong_answer_has_another_one(exercise, wrong):
    assert drawn(exercise, wrong) != drawn(exercise)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_answer_that_raises_has_none(exercise):
    check = find(exercise)
    names = "\n".join(f"def {name}(*given):\n    raise OSError" for name in check.names)
    with pytest.raises(ValueError, match="OSError"):
        check.picture(check, names)


@pytest.mark.parametrize(
    ("exercise", "functions", "way"),
    [
        ("find_the_knee", "bill", "return 1.0, 2.0"),
        ("choose_layout", "nbytes choose", "return {'data': 2, 'tensor': 2, 'pipeline': 4, "
         "'stage': 1, 'micro_batches': 12}"),
    ],
)  # fmt: skip
def test_what_is_written_is_drawn_where_the_rest_raises(exercise, functions, way):
    check = find(exercise)
    ways = {name: way if name in functions.split() else "raise OSError" for name in check.names}
    source = "\n".join(f"def {name}(*given):\n    {does}" for name, does in ways.items())
    assert check.picture(check, source).png.startswith(b"\x89PNG")


def test_the_cluster_that_is_shown_has_a_knee_a_cheaper_size_and_a_later_step_that_pays():
    assert (knee(knees.SHOWN), cheapest(knees.SHOWN)) == (14, 12)
    assert [gain >= knees.SHOWN["worth"] for gain in gains(knees.SHOWN)] == [
        *(3 * [True]),
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (14, "14 ranks on 4 nodes. The next bring 0.38 each"),
        (24, "24 ranks on 6 nodes. Nodes pay up to 14 ranks"),
        (2, "2 ranks on 1 node. Nodes pay"),
        (32, "Nodes pay up to 14"),
        (4.5, "not a size"),
        (None, "not a size"),
        ("14", "not a size"),
        (float("nan"), "not a size"),
        ([14], "not a size"),
        (knees.first({"raised": "OSError: "}), "find_the_knee raised"),
    ],
)
def test_the_title_of_a_knee(choice, words):
    assert words in knees.knee_in_words(choice, pictured())


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (12, "12 ranks, 8.6 h, 311"),
        (32, "a cheaper one is in time"),
        (4, "too late"),
        (None, "none"),
        (5, "not a size"),
        (knees.first({"raised": "OSError: "}), "cheapest raised"),
    ],
)
def test_the_title_of_the_cheapest_way(choice, words):
    title = knees.cheapest_in_words(choice, pictured())
    assert words in title
    assert ("cheaper" in title) == (choice == 32)


def layout(**sizes: int) -> dict[str, int]:
    return {"data": 2, "tensor": 2, "pipeline": 4, "stage": 1, "micro_batches": 12} | sizes


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (layout(data=1, tensor=4, stage=0, micro_batches=24), "is the fastest of the 53 that fit"),
        (layout(stage=0), "does not fit"),
        (layout(), "1.25 times as long as the fastest"),
        (layout(data=3), "none of the 288 legal"),
        ({"data": 2}, "none of the 288 legal"),
        ("data 2", "none of the 288 legal"),
        (None, "You chose none, and 53 of 288 layouts fit"),
    ],
)
def test_the_title_of_a_layout(choice, words):
    assert words in layouts.in_words(priced(), choice)
