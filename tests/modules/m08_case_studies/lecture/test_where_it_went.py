"""The table of what came later: its exercises exist, its rows have sources, what they come to."""

from dataclasses import replace
from itertools import pairwise

import pytest

from hpml.course import schedule
from hpml.modules.m08_case_studies.lecture.interruptions import Run
from hpml.modules.m08_case_studies.lecture.where_it_went import Foundation, claims, mostly, table

EXERCISES = {(module.id, one.id) for module in schedule.load().modules for one in module.exercises}
LLAMA = Run(gpus=16_384, days=54, interruptions=419)


@pytest.mark.parametrize("claim", claims(), ids=lambda one: one.name)
def test_a_claim_has_a_source_and_rests_on_exercises_that_exist(claim):
    assert claim.topic
    assert claim.claim.endswith(".")
    assert any(part.isdigit() and len(part) == 4 for part in claim.source.replace(",", "").split())
    assert claim.link.startswith("https://")
    assert claim.rests_on
    for one in claim.rests_on:
        assert (one.module, one.exercise) in EXERCISES
        assert one.why


def test_rows_of_a_topic_are_together_and_names_are_unique():
    topics = [one.topic for one in claims()]
    changes = 1 + sum(a != b for a, b in pairwise(topics))
    assert changes == len(set(topics)) == 5
    assert len({one.name for one in claims()}) == len(claims())
    assert len({one.link for one in claims()}) == len(claims())


def test_the_table_has_a_line_for_each_claim():
    lines = table(claims()).splitlines()
    assert len(lines) == 2 + len(claims())
    assert all(line.count(" | ") == 2 for line in lines[2:])
    assert sum(f"**{one.topic}**" in table(claims()) for one in claims()) == len(claims())
    assert "`overlap` (03): what is hidden<br>`find_the_straggler` (03): who is late |" in lines[9]


def test_most_rows_rest_on_one_module():
    found = mostly(claims())
    assert found.held
    assert (found.first, found.most) == ("07", sum("07" in one.modules for one in claims()))
    assert found.exercises == len({one.exercise for row in claims() for one in row.rests_on})


def test_two_modules_with_equally_many_rows_are_reported():
    [one, other] = [
        replace(claims()[0], rests_on=(Foundation(module, "fsdp", "why"),))
        for module in ("01", "07")
    ]
    assert mostly([one, other]) == (False, "01", 1, "07", 1, ("01", "07"), 1)


def test_interruptions_grow_with_the_gpus():
    assert LLAMA.hours_between(16_384) == pytest.approx(54 * 24 / 419)
    assert LLAMA.hours_between(8192) == pytest.approx(2 * LLAMA.hours_between(16_384))
    assert LLAMA.undisturbed(LLAMA.hours_between(256), 256) == pytest.approx(0.3679, abs=1e-4)
    assert LLAMA.undisturbed(48, 256) == pytest.approx(LLAMA.undisturbed(24, 256) ** 2)


def test_a_large_job_is_interrupted_daily_and_a_small_one_is_not():
    assert LLAMA.hours_between(16_384) < 24 < LLAMA.hours_between(256)
    assert replace(LLAMA, interruptions=50_000).hours_between(256) == pytest.approx(1.66, abs=0.01)


def test_the_table_has_the_figures_of_the_calculation():
    [claim] = [one.claim for one in claims() if one.name == "Llama 3"]
    for figure in ("16,384 GPUs", "54 days", "419 unexpected interruptions"):
        assert figure in claim
