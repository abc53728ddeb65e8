"""Published layouts are legal, and stand beside the quickest of the same search."""

from dataclasses import replace

import pytest

from hpml.modules.m07_hybrid_parallelism.lecture.published_layouts import beside, published, table
from hpml.predict.which_split import layouts

RUNS = list(published())


def test_each_row_has_its_source_and_whole_copies():
    assert len(RUNS) == 17
    for run in RUNS:
        assert "arXiv:" in run.source
        assert run.data * run.pipeline * run.tensor == run.cluster.ranks


@pytest.mark.parametrize(
    ("name", "billions"),
    [("1.7 billion", 1.5), ("145.6 billion", 145), ("Llama 3, 405 billion", 412)],
)
def test_the_models_have_their_size(name, billions):
    run = next(run for run in RUNS if run.name == name)
    assert run.model.parameters / 1e9 == pytest.approx(billions, rel=0.03)


def test_ours_is_the_quickest_that_fits_and_may_have_their_stages_of_zero():
    for run in RUNS[:9]:
        one = beside(run)
        assert one.ours.stage in run.stages
        assert one.ours.nbytes <= 0.9 * run.cluster.memory
        if one.fits:
            assert one.slower >= 0
        assert one.same == (one.slower == 0)


def test_where_nothing_fits_it_says_so():
    run = replace(RUNS[0], cluster=replace(RUNS[0].cluster, memory=1e9))
    one = beside(run)
    assert one.ours is None
    assert not one.same
    assert not one.fits
    assert "nothing fits" in table([one])
    with pytest.raises(ValueError, match=r"1\.7 billion: nothing fits"):
        _ = one.slower
    assert any(str(other) == str(one.theirs) for other in layouts(run.model, run.cluster))
