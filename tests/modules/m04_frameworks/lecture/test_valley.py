"""Six optimizers in one valley: who is at the bottom when, and who goes past it."""

import pytest
import torch

from hpml.modules.m04_frameworks.lecture.valley import (
    LOWEST,
    NEAR,
    RATES,
    RULES,
    START,
    TRIED,
    Path,
    descend,
    past_the_bottom,
    paths,
    steps_to_bottom,
    turning,
    valley,
)
from hpml.modules.m04_frameworks.lecture.valley_picture import valley_picture


@pytest.fixture(scope="module")
def found():
    return paths()


def test_sgd_follows_the_gradient(found):
    (first, second), (then, also) = found["SGD"].points[:2]
    assert (first, second) == START
    assert then == pytest.approx(first - RATES["SGD"] * (first - 6))
    assert also == pytest.approx(second - RATES["SGD"] * 90 * (second - 2))


def test_the_valley_is_lowest_where_it_says():
    assert valley(*LOWEST) == 0
    assert valley(torch.tensor([5.0, 6.0]), torch.tensor([2.0, 3.0])).tolist() == [0.5, 45.0]


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_the_best_of_the_rates_that_were_tried(rule):
    steps = {rate: descend(rule, rate).steps for rate in TRIED}
    there = {rate: n for rate, n in steps.items() if n is not None}
    assert min(there, key=there.get) == RATES[rule]


def test_the_steps_are_those_after_which_it_stays():
    far, near = (0.0, 0.0), (LOWEST[0] + NEAR / 2, LOWEST[1])
    assert Path("SGD", 1.0, (far, near, far, near, near)).steps == 3
    assert Path("SGD", 1.0, (near, near)).steps == 0
    assert Path("SGD", 1.0, (near, far)).steps is None


def test_overshoot_and_crossings():
    path = Path("SGD", 1.0, ((1.0, 1.0), (7.5, 3.0), (6.0, 2.0), (5.0, 1.0)))
    assert (path.overshoot, path.crossings) == (1.5, 2)


def test_nesterov_is_at_the_bottom_first_and_sgd_last_without_going_past_it(found):
    steps = steps_to_bottom(found)
    assert set(steps) == set(found)
    first, *_, last = steps
    assert (first, last) == ("Nesterov", "SGD")
    assert list(steps.values()) == sorted(steps.values())
    assert past_the_bottom(found) == [rule for rule in found if rule != "SGD"]
    nobody = {rule: Path(rule, 1.0, (START, START)) for rule in found}
    assert (steps_to_bottom(nobody), past_the_bottom(nobody)) == ({}, [])


def test_only_adam_notices_that_the_valley_is_turned(found):
    some = ("SGD", "momentum", "Nesterov", "Adam")
    turned = {rule: descend(rule, degrees=45) for rule in some}
    for rule in some[:3]:
        pairs = zip(turned[rule].points, found[rule].points, strict=True)
        assert all(one == pytest.approx(other) for one, other in pairs)
    assert turning(found, turned).held
    assert turning(found, turned).alike == [*some[:3]]
    assert not turning(found, found).held
    assert not turning(turned, turned).held
    never = turning(found, {**turned, "Adam": Path("Adam", 1.0, (START, START))})
    assert never.held
    assert never.steps["Adam"] == (found["Adam"].steps, None)


def test_a_panel_for_each_path_until_a_step(found):
    figure = valley_picture(found, until=5, title="title", against={"SGD": found["Adam"]})
    titles = [axes.get_title() for axes in figure.axes]
    assert [title.partition(",")[0] for title in titles] == list(found)
    (line,) = [one for one in figure.axes[0].lines if one.get_marker() == "o"]
    assert len(line.get_xdata()) == 6
