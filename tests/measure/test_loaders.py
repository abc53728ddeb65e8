"""Two loaders, the same images: what differs is the way."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hpml.data.cifar10 import Split
from hpml.data.formats import FORMATS, memory_map
from hpml.data.mapped import MappedImages
from hpml.measure.loaders import STD, OneByOne, Vectorised, data_loader, one_thread

COUNT = 23


@pytest.fixture
def folder(tmp_path) -> Path:
    images = np.random.default_rng(0).integers(0, 256, (COUNT, 3, 32, 32), np.uint8)
    for name in ("files", "memory map"):
        FORMATS[name].write(tmp_path / name, images, np.arange(COUNT))
    return tmp_path


@pytest.fixture
def split(folder) -> Split:
    images = MappedImages([folder / "memory map" / memory_map.NAME])
    return Split(images, images.labels().astype(np.int64))


def test_both_load_every_image_once_in_the_order_given_and_again(folder, split):
    order = np.random.default_rng(1).permutation(COUNT)
    for loader in (Vectorised(split, order, 10), data_loader(folder / "files", order, 10, 0)):
        for _ in range(2):
            batches = list(loader)
            assert [len(labels) for _, labels in batches] == [10, 10, 3]
            assert torch.cat([labels for _, labels in batches]).tolist() == order.tolist()
            for images, labels in batches:
                assert images.dtype == torch.float32
                assert images.shape == (len(labels), 3, 32, 32)


def test_both_normalise_alike(folder, split):
    grey = np.full((1, 3, 32, 32), 100, np.uint8)
    FORMATS["files"].write(folder / "grey", grey, np.zeros(1))
    FORMATS["memory map"].write(folder / "map", grey, np.zeros(1))
    mapped = MappedImages([folder / "map" / memory_map.NAME])
    ((by_batch, _),) = Vectorised(Split(mapped, np.zeros(1, np.int64)), np.arange(1), 1)
    one, _ = OneByOne(FORMATS["files"].open(folder / "grey"))[0]
    torch.testing.assert_close(by_batch[0], one)
    assert (one[0] - (100 / 255 - 0.4914) / STD[0]).abs().max() < 1e-5


def test_one_by_one_mirrors_by_a_coin_and_shifts_by_up_to_two_pixels(folder):
    ramp = np.broadcast_to(np.arange(32, dtype=np.uint8) * 8, (1, 3, 32, 32)).copy()
    FORMATS["files"].write(folder / "ramp", ramp, np.zeros(1))
    torch.manual_seed(0)
    data = OneByOne(FORMATS["files"].open(folder / "ramp"))
    rows = {tuple((data[0][0][0, 0] * STD[0] * 255 / 8).round().int().tolist()) for _ in range(200)}
    assert len(rows) == 10  # five shifts, mirrored or not


def test_without_augmentation_the_bytes_are_those_of_the_disk(split):
    ((images, _),) = Vectorised(split, np.arange(COUNT), COUNT, augmented=False)
    np.testing.assert_array_equal(images.numpy(), np.asarray(split.images))


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
