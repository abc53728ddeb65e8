"""Loaders and formats of larger images: the same images, whatever the way. Nothing is timed."""

from pathlib import Path

import numpy as np
import pytest

from hpml.data import photos
from hpml.data.cifar10 import Split
from hpml.measure.loaders import Vectorised, one_by_one
from hpml.modules.m08_case_studies.lecture import input_rates
from hpml.modules.m08_case_studies.lecture.input_rates import (
    KEPT,
    LOADERS,
    PACKED,
    Labelled,
    Photos,
)

SHAPE = (3, 48, 48)


@pytest.fixture
def files(tmp_path) -> list[Path]:
    """Seven photos, each of one grey, lighter from one to the next."""
    greys = np.arange(7, dtype=np.uint8).reshape(7, 1, 1, 1) * 30
    pixels = np.broadcast_to(greys, (7, 3, 32, 32)).copy()
    return photos.write(Split(pixels, np.arange(7)), tmp_path, 7, side=64)


def test_photos_are_read_like_an_array(files):
    read = Photos(files, 48)
    assert read[3].shape == SHAPE
    assert np.abs(read[3].astype(int) - 90).max() <= 2
    batch = read[np.array([6, 0, 2])]
    np.testing.assert_array_equal(batch, np.stack([read[6], read[0], read[2]]))


def test_both_loaders_give_batches_of_any_size_of_image(files):
    read, labels = Photos(files, 48), np.arange(7)
    order = [6, 5, 4, 3, 2, 1, 0]
    one = one_by_one(Labelled(read, labels), order, 4, workers=0)
    for loader in (one, Vectorised(Split(read, labels), np.array(order), 4)):
        batches = list(loader)
        assert [tuple(batch.shape) for batch, _ in batches] == [(4, *SHAPE), (3, *SHAPE)]
        assert [label for _, some in batches for label in some.tolist()] == order


def test_there_is_a_rate_for_each_way_and_nothing_is_written_elsewhere(tmp_path):
    rates = input_rates.measure(tmp_path, images=6, side=16, photo=40, rounds=1)
    assert set(rates.loading) == {(loader, name) for loader in LOADERS for name in KEPT}
    assert set(rates.disk) == set(KEPT)
    assert rates.nbytes[PACKED] == 3 * 16 * 16
    assert all(rate > 0 for rate in [*rates.loading.values(), *rates.disk.values()])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(KEPT)
    table = list(input_rates.lines(rates))
    assert len({len(line) for line in table}) == 1
    assert len(table) == 3
