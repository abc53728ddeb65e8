"""Where a ring overtakes recursive doubling: by the formulas of both."""

import pytest

from hpml.modules.m08_case_studies.lecture.ring_crossover import crossover, table
from hpml.predict.collectives import Cost, all_reduce_seconds

COST = Cost(2e-5, 8e-10)


@pytest.mark.parametrize("ranks", [4, 8, 64, 1024])
def test_both_take_as_long_at_the_crossover_and_the_ring_wins_above(ranks):
    at = crossover(ranks, COST)

    def difference(nbytes):
        ring, doubling = (
            all_reduce_seconds(name, nbytes, ranks, COST) for name in ("ring", "recursive-doubling")
        )
        return (ring - doubling) / doubling

    assert difference(at) == pytest.approx(0, abs=1e-12)
    assert difference(0.9 * at) > 0 > difference(1.1 * at)


def test_four_ranks_by_hand():
    """2 (α + n β) = 6 α + 1.5 n β: n = 8 α/β."""
    assert crossover(4, Cost(1, 1)) == pytest.approx(8)
    assert crossover(256, Cost(1, 1)) == pytest.approx(83.6, abs=0.05)
    assert "    4 ranks   2 α +  2 n β       6 α + 1.50 n β          8.0 α/β" in table([4])


@pytest.mark.parametrize("ranks", [1, 2, 3, 6])
def test_where_there_is_no_crossover_it_is_refused(ranks):
    with pytest.raises(ValueError, match="power of two"):
        crossover(ranks, COST)


def test_with_a_cost_the_table_has_bytes():
    assert table([4, 256], COST).splitlines()[1].endswith("8.0 α/β =  200 kB here")
    assert table([4, 256], COST).splitlines()[2].endswith("83.6 α/β =  2.1 MB here")
