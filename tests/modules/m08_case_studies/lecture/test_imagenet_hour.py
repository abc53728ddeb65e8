"""The published errors by batch: up to where they stay, and both sides of what is concluded."""

from dataclasses import replace

from hpml.modules.m08_case_studies.lecture.imagenet_hour import (
    LINEAR,
    TRAINED,
    error_picture,
    errors,
    found,
    limit,
)


def test_the_linear_rule_holds_up_to_8192():
    assert found().held
    assert found().batch == limit() == 8192
    assert (errors()[256], errors()[8192], errors()[16384]) == (23.60, 23.74, 24.79)


def test_a_limit_elsewhere_is_reported():
    better = [replace(one, error=23.7) if one.batch == 16384 else one for one in TRAINED]
    assert found(better)[:2] == (False, 16384)


def test_a_recipe_without_effect_is_reported():
    alike = [one if one.way == LINEAR else replace(one, error=23.8) for one in TRAINED]
    assert found(alike)[:2] == (False, 8192)
    assert found(alike).others["no warm-up"] == 23.8


def test_the_limit_ends_at_the_first_batch_that_is_worse():
    dip = [replace(one, error=23.6) if one.batch == 32768 else one for one in TRAINED]
    assert limit(dip) == 8192


def test_the_picture_has_a_number_for_each_batch_and_a_mark_for_each_other_way():
    [axes] = error_picture().axes
    assert [text.get_text() for text in axes.texts] == [f"{e:.2f}" for e in errors().values()]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == list(dict.fromkeys(one.way for one in TRAINED))
    assert "8192" in axes.get_title(loc="left")
