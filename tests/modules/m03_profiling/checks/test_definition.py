"""When a rank communicates and when it computes: the same words wherever learners read it."""

import re

from hpml.course import schedule

FIRST = "the rank communicates while"


def words(text: str) -> str:
    """The text of a cell as one line, without marks."""
    return " ".join(re.sub(r"\*\*|^#( -)?", "", text, flags=re.MULTILINE).split())


def test_three_exercises_and_the_lecture_define_it_in_the_same_words():
    root = schedule.load().root
    cells = (root / "solutions" / "03_profiling.py").read_text("utf-8").split("\n# %%")
    found = {}
    for cell in cells:
        if FIRST in words(cell).lower():
            exercise = re.findall(r"^# ## `(\w+)`", cell, flags=re.MULTILINE)[0]
            definition, end, _ = words(cell).partition(" a rank may wait in them.")
            found[exercise] = definition[definition.index(FIRST.capitalize()) :] + end
    assert list(found) == ["step_breakdown", "find_the_straggler", "overlap"]
    (definition,) = set(found.values())
    in_short, _, _ = definition.partition(" Ops ")
    lecture = words((root / "notebooks" / "03_profiling.py").read_text("utf-8"))
    assert in_short.lower() in lecture.lower()
