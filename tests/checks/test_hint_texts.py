"""Hints are read from the checks' files as they are when the checks are imported."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hpml.checks import find, hint_texts, ids, registry
from hpml.checks.run_check import GENERAL_HINTS
from hpml.errors import UserError


@pytest.mark.parametrize("exercise", ids())
def test_the_hints_of_an_exercise_are_those_of_its_check(exercise, monkeypatch):
    expected = dict(find(exercise).hints)
    monkeypatch.setattr(registry, "find", lambda _: pytest.fail("it had to be imported"))
    assert hint_texts.of(exercise) == expected


def test_general_hints_are_those_of_a_judge():
    assert hint_texts.general() == GENERAL_HINTS


def test_an_unknown_exercise_is_refused_with_the_nearest_one():
    with pytest.raises(UserError, match="did you mean fsdp"):
        hint_texts.of("fspd")


def test_reading_them_imports_no_torch():
    code = (
        "import sys; from hpml.checks import hint_texts; hint_texts.of('ddp'); "
        "print({'torch', 'numpy', 'cloudpickle', 'hpml.ranks'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "set()\n", done.stderr


@pytest.mark.parametrize("exercise", ids())
def test_who_has_tried_nothing_gets_three_hints(exercise: str) -> None:
    steps = hint_texts.steps(exercise)
    assert tuple(steps) == hint_texts.STEPS
    assert "?" in hint_texts.of(exercise)["start"]
    assert "?" in steps["second"]
    assert not set(steps) & set(hint_texts.of(exercise))
    assert all(20 < len(text.split()) < 100 or exercise == "hello_ranks" for text in steps.values())


@pytest.mark.parametrize("exercise", ids())
def test_a_hint_that_no_judge_can_give_is_none(exercise: str) -> None:
    """Its key stands in the check once more than in the table, or is put together there."""
    own = Path(importlib.util.find_spec(registry.module_of(exercise)).origin)
    library = own.parents[3]
    patterns = ("_*.py", "instructors/_*.py", f"instructors/{own.name}")
    beside = [path for pattern in patterns for path in own.parent.glob(pattern)]
    beside += library.glob("checks/kits/*.py")
    engine = [*library.glob("checks/*.py"), *library.glob("ranks/*.py")]
    others = "".join(path.read_text() for path in (*beside, *engine))
    text = own.read_text()
    unmet = [
        key
        for key in hint_texts.of(exercise)
        if text.count(f'"{key}"') < 2
        and f'"{key}"' not in others
        and not re.search(rf'f"\{{\w+\}}_{key.rpartition("_")[2]}"', text + others)
        and not re.search(rf'f"{key.partition("_")[0]}_\{{\w+\}}"', text + others)
    ]
    assert unmet == []
