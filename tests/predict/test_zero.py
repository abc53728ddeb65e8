"""ZeRO's bytes, as the paper has them."""

import pytest

from hpml.predict import zero


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_the_papers_figure_1(stage, gigabytes):
    held = zero.on_a_rank(stage, 7_500_000_000, ranks=64)
    assert held.total / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_one_rank_holds_everything():
    assert {zero.on_a_rank(stage, 10, ranks=1).total for stage in range(4)} == {160}


def test_there_are_stages_0_to_3():
    with pytest.raises(ValueError, match="not 4"):
        zero.on_a_rank(4, 10, 2)
