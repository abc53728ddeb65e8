"""The published errors by batch: up to where they stay, and both sides of what is concluded."""

from dataclasses import replace

from hpml.modules.m08_case_studies.lecture.imagenet_hour import (
    LINEAR,
    TRAINED,
    batch_finding,
    errors,
    limit,
)
from hpml.modules.m08_case_studies.lecture.imagenet_hour_picture import error_picture


def test_the_linear_rule_holds_up_to_8192():
    held, sentence, _ = batch_finding()
    assert held
    assert limit() == 8192
    assert "Up to 8192: 23.74 %, and 23.60 % with 256" in sentence
    assert "At 16384 it is 24.79 %, at 65536 33.96 %" in sentence


def test_a_limit_elsewhere_is_reported():
    better = [replace(one, error=23.7) if one.batch == 16384 else one for one in TRAINED]
    held, _, otherwise = batch_finding(better)
    assert not held
    assert "up to a batch of 16384" in otherwise


def test_a_recipe_without_effect_is_reported():
    alike = [one if one.way == LINEAR else replace(one, error=23.8) for one in TRAINED]
    held, _, otherwise = batch_finding(alike)
    assert not held
    assert "no warm-up 23.80 %" in otherwise


def test_the_limit_ends_at_the_first_batch_that_is_worse():
    dip = [replace(one, error=23.6) if one.batch == 32768 else one for one in TRAINED]
    assert limit(dip) == 8192


def test_the_picture_has_a_number_for_each_batch_and_a_mark_for_each_other_way():
    [axes] = error_picture().axes
    assert [text.get_text() for text in axes.texts] == [f"{e:.2f}" for e in errors().values()]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == list(dict.fromkeys(one.way for one in TRAINED))
    assert "8192" in axes.get_title(loc="left")
