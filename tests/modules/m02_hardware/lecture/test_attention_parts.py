"""Attention in parts: the same result, and what is counted."""

import pytest
import torch

from hpml.modules.m02_hardware.lecture.attention_parts import (
    FUSED,
    PROJECTIONS,
    WRITTEN,
    Fused,
    ScoresWritten,
    compare,
    parts,
)
from hpml.modules.m02_hardware.lecture.machine_roofline import layer_work
from hpml.modules.m02_hardware.lecture.roofline import Work

B, T, WIDTH, HEADS = 2, 8, 12, 3
INTO, SCORES = B * T * WIDTH, B * HEADS * T * T  # numbers of queries, and of scores


@pytest.fixture
def works():
    there = parts(B, T, WIDTH, HEADS)
    return {name: layer_work(name, *part, rounds=1) for name, part in there.items()}


def test_both_ways_give_the_same_attention():
    given = torch.randn(3, B, HEADS, T, 4)
    torch.testing.assert_close(Fused()(given), ScoresWritten()(given))


def test_projections_are_four_linear_layers(works):
    assert works[PROJECTIONS].flops == 3 * 4 * 2 * B * T * WIDTH**2  # forward, and two gradients


def test_fused_moves_no_scores_and_the_other_way_does(works):
    fused, written = works[FUSED].nbytes, works[WRITTEN].nbytes
    # Softmax's output, which both products' gradients need, and its gradient among them
    assert written - fused > 4 * 6 * SCORES
    assert fused < 4 * (16 * INTO)
    assert works[FUSED].intensity > works[WRITTEN].intensity


def test_products_are_counted_both_ways(works):
    forward = 2 * 2 * B * HEADS * T * T * 4
    assert works[WRITTEN].flops >= 3 * forward  # and one for each number of the rest
    assert works[FUSED].flops == 3.5 * forward  # backward computes the scores again


def test_what_is_compared_is_computed():
    fused, written = Work(FUSED, 16e6, 1e6, 0.1), Work(WRITTEN, 16e6, 5e6, 0.2)
    assert compare([fused, Work("ReLU", 1, 1, 1), written]) == (True, fused, written)
    assert not compare([fused, Work(WRITTEN, 16e6, 1e6, 0.2)]).held


@pytest.mark.parametrize(
    ("ridge", "seconds", "said"),
    [(10.0, 0.1, "left of"), (2.0, 0.3, "gain nothing"), (2.0, 0.1, "binds neither")],
)
def test_what_the_ridge_has_to_do_with_it_is_said(ridge, seconds, said):
    fused, written = Work(FUSED, 16e6, 1e6, seconds), Work(WRITTEN, 16e6, 5e6, 0.2)
    assert said in compare([fused, written]).here(ridge)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="5 heads do not divide a width of 12"):
        parts(heads=5, width=12)
