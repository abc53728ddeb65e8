"""All layouts as bytes and seconds: how far apart they are, and what a search is worth."""

from hpml.modules.m08_case_studies.lecture.layout_space import search, space_picture, spread
from hpml.predict.which_split import Cluster, Transformer, layouts

MODEL = Transformer(36, 4096, tokens=2**21, sequence=2048)


def space(*rates: float) -> dict:
    clusters = {f"{r:.0f}": Cluster(64, 8, 80e9, 4e14, 450e9, r / 8) for r in rates}
    return {name: list(layouts(MODEL, cluster)) for name, cluster in clusters.items()}


def test_a_slow_network_changes_the_choice():
    found = search(space(400e9, 25e9), 80e9)
    assert found.held
    assert [(one.data, one.stage) for one in (found.fast, found.slow)] == [(64, 3), (64, 1)]
    assert (found.layouts, found.fitting) == (360, 183)


def test_two_networks_alike_change_nothing():
    assert not search(space(400e9, 400e9 + 1), 80e9).held


def test_what_does_not_fit_does_not_count():
    (found,) = space(400e9).values()
    fitting = [one for one in found if one.nbytes <= 80e9]
    assert len(fitting) < len(found)
    assert spread(fitting, 1e15) == spread(found, 80e9) < spread(found, 1e15)
    assert spread(found[:1], 1e15) == 1


def test_the_picture_has_a_panel_for_each_network_and_each_layout_in_it():
    found = space(400e9, 25e9)
    figure = space_picture(found, 80e9)
    assert [axes.get_title() for axes in figure.axes] == list(found)
    for axes, all_ in zip(figure.axes, found.values(), strict=True):
        assert sum(len(dots.get_offsets()) for dots in axes.collections) == len(all_)
