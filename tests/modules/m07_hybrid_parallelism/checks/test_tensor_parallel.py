"""Exercise tensor_parallel: its judges on a good run, and on one with one thing changed."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from hpml.models.vision_transformer import Attention
from hpml.modules.m07_hybrid_parallelism.checks import _parallel_layers as layers
from hpml.modules.m07_hybrid_parallelism.checks import _slices_picture as slices_picture
from hpml.modules.m07_hybrid_parallelism.checks.tensor_parallel import CHECK, MESSAGE

FORWARD, BACKWARD, ONCE, SHARE, HEADS, HEADS_ONCE, HEADS_SHARE = (c.judge for c in CHECK.claims)


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 3, 5)


@pytest.fixture
def with_calls(good, with_ranks):
    """`with_calls(change, stage)`: with the calls that `change(call)` lists for each."""

    def of_rank(change, rank):
        return replace(rank, calls=tuple(one for call in rank.calls for one in change(call)))

    return lambda change, stage="mlp": with_ranks(good, partial(of_rank, change), stage)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("stage", layers.STAGES)
def test_shares_cover_the_split_dimension_once(stage, world_size):
    hidden = layers.HIDDEN[0]
    ends = [layers.share(stage, hidden, rank, world_size) for rank in range(world_size)]
    assert ends[0][0] == 0
    assert [stop for _, stop in ends[:-1]] == [start for start, _ in ends[1:]]
    assert ends[-1][1] == (hidden if stage == "mlp" else layers.FEATURES)


def test_the_texts_example_is_played_on_four_ranks_whatever_the_seed():
    assert {layers.inputs(seed, 4)["mlp"][0]["hidden"] for seed in range(6)} == {50}
    assert len({layers.inputs(seed, 3)["mlp"][0]["hidden"] for seed in range(6)}) == 3
    shares = [layers.share("mlp", 50, rank, 4) for rank in range(4)]
    assert [stop - start for start, stop in shares] == [13, 13, 12, 12]


def test_the_reference_layers_are_torchs():
    given = layers.inputs(4, 1)
    weights, x = given["mlp"][0]["weights"], given["mlp"][0]["steps"][0][0]
    hidden = given["mlp"][0]["hidden"]
    up, down = nn.Linear(24, hidden).double(), nn.Linear(hidden, 24).double()
    up.load_state_dict({n.removeprefix("up."): w for n, w in weights.items() if "up" in n})
    down.load_state_dict({n.removeprefix("down."): w for n, w in weights.items() if "down" in n})
    torch.testing.assert_close(layers.mlp(weights, x), down(F.gelu(up(x))))

    weights = given["attention"][0]["weights"]
    ours = Attention(layers.FEATURES, layers.HEADS).double()
    ours.load_state_dict(weights, strict=False)
    for layer in (ours.query, ours.value):
        nn.init.zeros_(layer.bias)
    torch.testing.assert_close(layers.attention(weights, x), ours(x))


def test_inputs_differ_between_seeds_and_are_the_same_on_all_ranks():
    one, other = layers.inputs(1, 2), layers.inputs(2, 2)
    assert one["mlp"][0] is one["mlp"][1]
    assert not torch.equal(one["mlp"][0]["steps"][0][0], other["mlp"][0]["steps"][0][0])


@pytest.mark.parametrize(
    ("step", "part", "change", "judged", "hint"),
    [
        (0, 0, lambda y: y + 1e-6, FORWARD, "partial"),
        (0, 0, lambda y: y.float(), FORWARD, "types"),
        (0, 0, lambda y: y[:1], FORWARD, "types"),
        (0, 1, lambda g: 3 * g, BACKWARD, "twice"),
        (2, 1, lambda g: g + 1e-3, BACKWARD, "backward"),
    ],
)
def test_a_wrong_value_on_one_rank_is_found(good, with_value, step, part, change, judged, hint):
    def changed(value):  # the output (part 0) or the gradient (1) of a step
        pair = [*value[step]]
        pair[part] = change(pair[part])
        return [*value[:step], pair, *value[step + 1 :]]

    problem = judged(with_value(good, 1, changed, "mlp"))
    assert problem.hint == hint
    assert "rank 1" in problem.message


def test_weights_that_parameters_lacks_explain_a_later_step_and_no_first_one(good, with_value):
    def lacking(step):
        def changed(value):
            pairs = [
                [y + (n >= step), gradient, ["up.bias"]] for n, (y, gradient, _) in enumerate(value)
            ]
            return pairs

        run = good
        for rank in range(3):
            run = with_value(run, rank, changed, "mlp")
        return FORWARD(run)

    problem = lacking(1)
    assert problem.message == "ParallelMLP, rank 0: parameters() lacks up.bias"
    assert problem.hint == "parameters"
    assert lacking(0).hint == "forward"


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda call: [], "none"),
        (lambda call: [replace(call, nbytes=MESSAGE // 2)], "bytes"),
        (lambda call: [replace(call, issued=0.0)], "outside"),
    ],
)
def test_calls_are_counted_in_forward_and_in_backward(with_calls, change, hint):
    assert ONCE(with_calls(change)).hint == hint
    assert HEADS_ONCE(with_calls(change, "attention")).hint == hint


def test_a_call_moved_from_backward_to_forward_is_found(good, with_ranks):
    def move(rank):
        calls = list(rank.calls)
        calls[1] = replace(calls[1], issued=calls[0].issued)
        return replace(rank, calls=tuple(calls))

    assert ONCE(with_ranks(good, move, "mlp")).hint == "too_many"


def test_one_rank_needs_no_calls_and_may_make_some(with_calls):
    for run in (with_calls(lambda call: []), with_calls(lambda call: [call] * 3)):
        assert ONCE(replace(run, world_size=1)) is None


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"start": 0, "stop": 1}, "share"),  # rank 1's share begins later
        ({"dim": 1, "start": 0, "stop": 2}, "dimension"),
    ],
)
def test_what_a_rank_reads_is_held_to_its_share(good, with_ranks, change, hint):
    def of_rank(rank):
        if rank.rank != 1:
            return rank
        asked = [
            replace(one, request={**one.request, **change})
            if isinstance(one.request, dict) and one.request["read"] == "up.weight"
            else one
            for one in rank.asked
        ]
        return replace(rank, asked=tuple(asked))

    assert SHARE(with_ranks(good, of_rank, "mlp")).hint == hint


@pytest.mark.parametrize("name", ["up.weight", "down.bias"])
def test_a_weight_that_a_rank_does_not_read_is_found(good, with_ranks, name):
    def of_rank(rank):
        left = [
            a for a in rank.asked if not isinstance(a.request, dict) or a.request["read"] != name
        ]
        return replace(rank, asked=tuple(left))

    hint = "whole_bias" if name == "down.bias" else "share"
    assert SHARE(with_ranks(good, of_rank, "mlp")).hint == hint


@pytest.mark.parametrize(
    "request_",
    [
        {"read": "nothing", "dim": 0, "start": 0, "stop": 1},
        {"read": "up.bias", "dim": 1, "start": 0, "stop": 1},
        {"read": "up.bias", "dim": 0, "start": 0, "stop": 10**9},
        {"read": "up.bias", "dim": 0, "start": -1, "stop": 1},
        {"read": ["up.bias"], "dim": 0, "start": 0, "stop": 1},
        {"read": "up.bias", "dim": True, "start": 0, "stop": 1},
    ],
)
def test_a_slice_that_is_not_there_is_refused(request_):
    weights = layers.inputs(1, 1)["mlp"][0]["weights"]
    with pytest.raises((ValueError, TypeError)):
        layers.slice_of(weights, request_)


def test_the_picture_shows_who_has_read_what(solution, monkeypatch):
    figures, draw = [], slices_picture.drawn
    monkeypatch.setattr(
        slices_picture, "drawn", lambda found: figures.append(draw(found)) or figures[-1]
    )
    right = solution("tensor_parallel")
    assert CHECK.picture(CHECK, right).png.startswith(b"\x89PNG")
    panels = {axes.get_title("left"): axes for axes in figures[0].axes if axes.get_title("left")}
    assert len(panels) == 9
    for title, axes in panels.items():
        said = [text.get_text() for text in axes.texts]
        assert said == (["all"] if title.startswith(("down.bias", "out.bias")) else list("0123"))
