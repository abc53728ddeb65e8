"""One bit for each gradient: packed for real, and what feedback repairs."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.modules.m04_frameworks.lecture.one_bit import (
    EXACT,
    FEEDBACK,
    FORGOTTEN,
    IN_PARTS,
    Training,
    feedback_repairs,
    pack,
    picture,
    sent,
    smoothed,
    title,
    trainings,
    unpack,
)
from hpml.ranks.evidence import Call, Evidence, Mark, RankEvidence


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=1, max_size=70))
def test_what_is_unpacked_has_the_signs_and_the_mean_size(values):
    tensor = torch.tensor(values)
    message = pack(tensor)
    assert message.dtype == torch.uint8
    assert message.nbytes == 4 + -(-len(values) // 8)
    back = unpack(message, like=tensor)
    assert torch.equal(back >= 0, torch.where(back == 0, True, tensor >= 0))
    torch.testing.assert_close(back.abs(), torch.full_like(tensor, tensor.abs().mean().item()))


def test_the_shape_comes_back():
    tensor = torch.randn(3, 5)
    assert unpack(pack(tensor), like=tensor).shape == (3, 5)


def test_an_error_that_is_kept_comes_with_later_steps():
    """The sum of what was sent follows the sum of the gradients, however small an element is."""
    gradient = torch.tensor([1.0, 0.01, -0.3])
    error, sent = torch.zeros(3), torch.zeros(3)
    for _ in range(200):
        wanted = gradient + error
        said = unpack(pack(wanted), like=wanted)
        error = wanted - said
        sent += said
    torch.testing.assert_close(sent / 200, gradient, atol=0.02, rtol=0)


def made(
    exact=0.02, kept=0.021, parts=0.021, lost=0.04, nbytes=(6200, 400, 200, 400)
) -> dict[str, Training]:
    ways = (EXACT, FEEDBACK, IN_PARTS, FORGOTTEN)
    losses = zip(ways, (exact, kept, parts, lost), nbytes, strict=True)
    return {name: Training((0.3, *[last] * 20), count) for name, last, count in losses}


def test_fewer_bytes_and_the_same_loss_are_seen():
    assert feedback_repairs(made())
    assert title(made()).startswith("31 times fewer bytes")
    assert "1.05 times that of float32 with feedback, 2.00 times without" in title(made())


@pytest.mark.parametrize(
    "other",
    [
        made(kept=0.03),
        made(parts=0.03),
        made(lost=0.022),
        made(nbytes=(2000, 100, 200, 100)),
        made(nbytes=(6200, 400, 500, 400)),
    ],
)
def test_other_outcomes_are_reported(other):
    assert not feedback_repairs(other)


def call(at, nbytes, operation="all_reduce"):
    same = {"index": 1, "operation": operation, "group": (0, 1), "sequence": 1}
    same |= {"dtype": "float32", "shape": (1,), "reduction": "sum", "line": None}
    return Call(**same, nbytes=nbytes, issued=at)


@pytest.mark.parametrize("ranks", [2, 4, 64])
def test_in_parts_saves_32_times_on_any_number_of_ranks_to_all_64_over_them(ranks):
    """A float32 tensor of n elements: bits to all; or of each part to its rank, then of mine."""
    n = 2**16
    exact = sent(call(0, 4 * n), ranks)
    to_all = sent(call(0, n / 8, "all_gather"), ranks)
    in_parts = sent(call(0, n / 8, "all_to_all_single"), ranks)
    in_parts += sent(call(0, n / 8 / ranks, "all_gather"), ranks)
    assert exact / in_parts == pytest.approx(32)
    assert exact / to_all == pytest.approx(64 / ranks)


def test_bytes_belong_to_the_training_that_was_going_on():
    calls = (call(0.5, 7), call(1.5, 100), call(1.6, 100), call(2.5, 4))
    marks = (Mark("other", 0.1), Mark("a", 1.0), Mark("b", 2.0))
    ranks = tuple(RankEvidence(r, "returned", calls=calls, marks=marks) for r in (0, 1))
    curves = [{"a": [1.0, 0.5], "b": [1.0, 0.7]}, {"a": [3.0, 0.5], "b": [1.0, 0.9]}]
    found = trainings(Evidence(2, ranks, 3.0), curves)
    assert {name: one.nbytes for name, one in found.items()} == {"a": 200, "b": 4}
    assert found["a"].losses == (2.0, 0.5)
    assert found["b"].losses == (1.0, pytest.approx(0.8))


def test_the_picture_shows_each_training_twice():
    figure = picture(made(), title="message")
    assert [len(axes.lines) for axes in figure.axes] == [4, 4]
    assert figure.axes[1].get_xlabel().endswith("(kB)")


def test_losses_are_smoothed_over_those_before():
    assert smoothed([4.0, 2.0, 0.0], over=2) == [4.0, 3.0, 1.0]
