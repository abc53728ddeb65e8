"""Layers that are split in ways of their own: what is sent by hand, and searches that agree."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.modules.m08_case_studies.lecture.layer_ways import (
    Chain,
    dynamic_programming,
    linear_alone,
    random_walk,
    try_all,
)
from hpml.predict.model_layers import Layer, Model, model

TWO = Model("two", (Layer("conv", 1.0, 80, 10), Layer("fc", 1.0, 8000, 1)))


def test_what_is_sent_by_hand():
    chain = Chain(TWO, ranks=4, batch=8)
    assert chain.sent(("data", "data")) == pytest.approx(2 * 3 / 4 * 8080)
    # gradients of the first; its 8 · 10 bytes gathered, and scattered back
    assert chain.sent(("data", "tensor")) == pytest.approx(2 * 3 / 4 * (80 + 80))
    assert chain.sent(("tensor", "tensor")) == pytest.approx(2 * 3 / 4 * 80)
    # a quarter of the activations stays where it is, and each rank has a quarter to send
    assert chain.sent(("tensor", "data")) == pytest.approx(2 * 3 / 4 * (80 / 4 + 8000))


def test_one_rank_sends_nothing():
    chain = Chain(TWO, ranks=1, batch=8)
    assert chain.sent(("data", "tensor")) == chain.sent(("tensor", "data")) == 0


sizes = st.integers(0, 10**6)
layers = st.lists(
    st.builds(Layer, st.just("fc"), st.just(1.0), sizes, sizes), min_size=1, max_size=8
)


@given(layers, st.integers(1, 16), st.integers(1, 64))
@settings(max_examples=40, deadline=None)
def test_dynamic_programming_finds_what_trying_all_finds(made, ranks, batch):
    chain = Chain(Model("drawn", tuple(made)), ranks, batch)
    planned = dynamic_programming(chain)
    assert planned.nbytes == pytest.approx(try_all(chain).nbytes)
    assert chain.sent(planned.ways) == pytest.approx(planned.nbytes)
    walked = random_walk(chain, steps=50)
    assert walked.nbytes >= planned.nbytes * (1 - 1e-9)
    assert chain.sent(walked.ways) == pytest.approx(walked.nbytes)


def test_in_vgg16_linear_layers_are_split_and_convolutions_are_not():
    chain = Chain(model("vgg16"), ranks=8, batch=256)
    planned = dynamic_programming(chain)
    assert planned.ways == ("data",) * 13 + ("tensor",) * 3
    assert planned.priced == 2 + 15 * 4
    assert linear_alone(chain, planned, random_walk(chain))
    by_data = replace(planned, ways=("data",) * 16)
    assert not linear_alone(chain, by_data, by_data)
    assert not linear_alone(chain, replace(planned, ways=("tensor",) * 16))


def test_searches_that_disagree_are_reported():
    chain = Chain(model("vgg16"), ranks=8, batch=256)
    planned = dynamic_programming(chain)
    lost = replace(planned, nbytes=2 * planned.nbytes)
    assert not linear_alone(chain, planned, planned, lost)
