"""Seven faults and their fixes: all versions train the same."""

import numpy as np
import pytest
import torch

from hpml.data import augment, load, normalize, photos
from hpml.modules.m03_profiling.lecture import slow_training
from hpml.modules.m03_profiling.lecture.slow_training import (
    BATCH,
    FIXES,
    PHOTOS,
    pixel_by_pixel,
    shuffled,
    train,
)

STEPS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small photos, which are decoded quickly; the script keeps those that are there."""
    folder = tmp_path_factory.mktemp("photos")
    photos.write(load().train, folder, PHOTOS, side=48)
    return folder


@pytest.fixture(scope="module")
def unfixed(folder):
    return train(folder, (), STEPS)


def silent(folder, *fixes):
    return train(folder, fixes, STEPS)


def test_a_photo_is_the_image_enlarged(folder):
    small = photos.read(sorted(folder.rglob("*.jpg"))[3])
    assert (small.dtype, small.shape) == (np.uint8, (3, 32, 32))
    away = [np.abs(small.astype(float) - load().train.images[k]).mean() for k in range(20)]
    assert np.argmin(away) == 3


def test_other_images_get_photos_of_their_own(folder, tmp_path):
    test, train = load().test, load().train
    files = [photos.write(split, tmp_path, 2, side=40) for split in (train, test, train)]
    assert files[0] == files[2]
    assert not set(files[0]) & set(files[1])


def test_pixel_by_pixel_is_what_the_whole_batch_gives():
    images = torch.randint(0, 256, (40, 3, 32, 32), dtype=torch.uint8)
    one, other = (torch.Generator().manual_seed(5) for _ in range(2))
    torch.testing.assert_close(pixel_by_pixel(images, one), normalize(augment(images, other)))


def test_every_epoch_has_each_photo_once_in_an_order_of_its_own():
    steps = 2 * PHOTOS // BATCH
    indices = torch.cat(list(shuffled(PHOTOS, BATCH, steps))).view(2, PHOTOS)
    assert all(sorted(epoch) == list(range(PHOTOS)) for epoch in indices.tolist())
    assert indices[0].tolist() != indices[1].tolist()


@pytest.mark.parametrize("fix", FIXES)
def test_a_fixed_version_trains_the_same(folder, unfixed, fix):
    """Batch normalisation sees more images at a time, and bfloat16 rounds; the rest is exact."""
    within = {"one_batch": 0.1, "bfloat16": 0.05}.get(fix, 0.005)
    assert silent(folder, fix).losses == pytest.approx(unfixed.losses, rel=within)


def test_all_fixes_together_train_the_same(folder, unfixed):
    assert silent(folder, *FIXES).losses == pytest.approx(unfixed.losses, rel=0.1)


def test_it_reports_after_each_backward_until_that_is_fixed(folder):
    for fixes, reports in (((), STEPS * BATCH // slow_training.TINY), (("no_item",), 0)):
        lines = []
        train(folder, ("pack", "whole_batch", *fixes), STEPS, report=lines.append)
        assert len(lines) == reports


def test_twice_as_many_threads_as_cores_and_afterwards_as_many_as_before(folder, monkeypatch):
    monkeypatch.setattr(slow_training, "usable_cores", lambda: 2.0)
    before, seen = torch.get_num_threads(), []
    for fixes in (("pack",), ("pack", "threads")):
        train(folder, fixes, 1, lambda: seen.append(torch.get_num_threads()))
    assert (seen, torch.get_num_threads()) == ([4, 2], before)


def test_the_script_runs_as_a_program(folder, monkeypatch, capsys):
    arguments = [str(folder), "--steps", "1", "--fix", "pack", "whole_batch"]
    monkeypatch.setattr("sys.argv", ["slow_training", *arguments])
    slow_training.main()
    assert capsys.readouterr().out.endswith(" images/s\n")
