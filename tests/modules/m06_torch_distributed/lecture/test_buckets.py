"""Gradients dealt to buckets, and when each bucket's all-reduce can be under way."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed as dist
from torch import nn

from hpml.modules.m06_torch_distributed.lecture.buckets import (
    all_reduce_spans,
    bucket_picture,
    deal,
    gradient_bytes,
)


def test_the_last_parameter_comes_first_and_what_is_not_trained_is_left_out():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].bias.requires_grad = False
    assert gradient_bytes(model) == {"1.bias": 8, "1.weight": 24, "0.weight": 48}


@given(st.lists(st.integers(0, 60)), st.integers(1, 50))
def test_a_bucket_never_exceeds_its_limit_except_for_one_gradient_alone(sizes, limit):
    gradients = {f"g{k}": size for k, size in enumerate(sizes)}
    buckets = deal(gradients, limit)
    assert [name for bucket in buckets for name in bucket] == list(gradients)
    for bucket in buckets:
        assert sum(gradients[name] for name in bucket) <= limit or len(bucket) == 1
    for one, following in pairwise(buckets):
        assert sum(gradients[name] for name in one) + gradients[following[0]] > limit


def test_pytorchs_ddp_closes_a_bucket_with_the_gradient_that_brings_it_to_the_limit():
    # Module 06 says so of DDP, beside the rule of the course.
    sizes = {"a": 24, "b": 12, "c": 12}
    gradients = [torch.zeros(size // 4) for size in sizes.values()]
    of_ddp, _ = dist._compute_bucket_assignment_by_size(gradients, [32])
    assert (of_ddp, deal(sizes, 32)) == ([[0, 1], [2]], [["a"], ["b", "c"]])
    assert dist._DEFAULT_FIRST_BUCKET_BYTES == 2**20


def test_an_all_reduce_waits_for_its_gradients_and_for_the_one_before():
    assert all_reduce_spans([2, 5, 1]) == [(2, 4), (7, 12), (12, 13)]


def test_the_picture_names_the_buckets_and_says_what_overlaps():
    model = nn.Sequential(*[nn.Linear(50, 50, bias=False) for _ in range(4)])
    axes = bucket_picture(model, 20_000).axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert [text for text in texts if ": " in text] == ["1: 20.0 kB", "2: 20.0 kB"]
    title = "4 gradients leave in 2 messages; 50% of the bytes can travel while backward runs"
    assert axes.get_title(loc="left") == title
    assert axes.get_xlabel() == "time, as bytes of gradients that backward makes (kB)"


def test_there_must_be_something_to_train():
    with pytest.raises(ValueError, match="nothing to send"):
        bucket_picture(nn.ReLU(), 100)
