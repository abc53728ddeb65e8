"""Ranges and steps follow from the bits; PyTorch knows them too."""

import pytest
import torch

from hpml.modules.m02_hardware.lecture.number_formats import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FORMATS,
    INT8,
    TF32,
)
from hpml.modules.m02_hardware.lecture.number_formats_picture import bits


@pytest.mark.parametrize("one", [FLOAT32, BFLOAT16, FLOAT16], ids=lambda one: one.name)
def test_a_float_is_what_pytorch_says_it_is(one):
    known = torch.finfo(getattr(torch, one.name))
    assert (one.largest, one.step, one.bits) == (known.max, known.eps, known.bits)
    assert (one.smallest_normal, one.smallest) == (known.smallest_normal, known.tiny * known.eps)


def test_tf32_has_the_range_of_bfloat16_and_the_step_of_float16():
    assert TF32.smallest_normal == BFLOAT16.smallest_normal
    assert TF32.step == FLOAT16.step
    assert (TF32.bits, TF32.stored) == (19, 32)


def test_int8_ends_at_127():
    assert INT8.largest == torch.iinfo(torch.int8).max
    assert INT8.smallest == INT8.step == 1


def test_the_picture_has_a_square_for_every_stored_bit():
    (axes,) = bits(title="bits").axes
    assert len(axes.patches) == sum(one.stored for one in FORMATS)
    assert "65,504" in {text.get_text() for text in axes.texts}
