import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.data import augment, batches, load, normalize
from hpml.data.batches import MEAN, STD


@pytest.fixture(scope="module")
def data(small, whole):
    return load(whole)


def some_images(count: int = 300) -> torch.Tensor:
    return torch.randint(0, 256, (count, 3, 32, 32), generator=torch.Generator().manual_seed(1)).to(
        torch.uint8
    )


@given(st.lists(st.integers(-500, 499), max_size=40), st.integers(1, 9), st.booleans())
def test_batches_are_the_images_asked_for_in_order(data, order, size, drop_last):
    made = list(batches(data.train, order, size, drop_last=drop_last))
    kept = len(order) // size * size if drop_last else len(order)
    assert [len(labels) for _, labels in made[:-1]] == [size] * (len(made) - 1)
    assert sum(len(labels) for _, labels in made) == kept
    position = 0
    for images, labels in made:
        assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)
        for image, label in zip(images, labels, strict=True):
            assert np.array_equal(image, data.train.images[order[position]])
            assert label == data.train.labels[order[position]]
            position += 1


def test_a_slice_a_mask_and_the_whole_agree_with_the_list(data):
    everything = np.asarray(data.test.images)
    assert everything.shape == (100, 3, 32, 32)
    assert np.array_equal(data.test.images[-3:], everything[-3:])
    mask = data.test.labels == 7
    assert np.array_equal(data.test.images[mask], everything[mask])


@pytest.mark.parametrize("index", [100, -101, [0, 100], 0.5, [[1]]])
def test_an_index_that_names_no_image_is_refused(data, index):
    with pytest.raises(IndexError):
        data.test.images[index]


@pytest.mark.parametrize("pad", [0, 1, 2, 4])
@pytest.mark.parametrize(("mode", "torch_mode"), [("reflect", "reflect"), ("zero", "constant")])
def test_every_image_is_a_crop_of_the_padded_one_mirrored_or_not(pad, mode, torch_mode):
    images = some_images()
    made = augment(images, torch.Generator().manual_seed(2), pad=pad, mode=mode)
    assert (made.dtype, made.shape) == (images.dtype, images.shape)
    padded = torch.nn.functional.pad(images, (pad,) * 4, mode=torch_mode)
    seen = set()
    for index, image in enumerate(made):
        found = [
            (top, left, mirrored)
            for top in range(2 * pad + 1)
            for left in range(2 * pad + 1)
            for mirrored in (False, True)
            if torch.equal(
                image.flip(2) if mirrored else image,
                padded[index, :, top : top + 32, left : left + 32],
            )
        ]
        assert len(found) == 1, f"image {index} is {len(found)} crops of its original"
        seen.update(found)
    assert {top for top, _, _ in seen} == {left for _, left, _ in seen} == set(range(2 * pad + 1))
    assert {mirrored for _, _, mirrored in seen} == {False, True}


def test_augmentation_follows_its_generator():
    images = some_images(50)
    first, again, other = (augment(images, torch.Generator().manual_seed(s)) for s in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_flips_can_be_left_out():
    images = some_images(50)
    assert torch.equal(augment(images, pad=0, flip=False), images)


def test_an_unknown_padding_is_refused():
    with pytest.raises(ValueError, match="mode is 'mirror', expected 'reflect' or 'zero'"):
        augment(some_images(1), mode="mirror")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("channels_last", [False, True])
def test_normalisation_is_the_formula(dtype, channels_last):
    images = some_images(20)
    mean, std = (torch.tensor(v, dtype=torch.float64).view(1, 3, 1, 1) for v in (MEAN, STD))
    made = normalize(images, dtype=dtype, channels_last=channels_last)
    assert made.dtype == dtype
    assert made.shape == images.shape
    layout = torch.channels_last if channels_last else torch.contiguous_format
    assert made.is_contiguous(memory_format=layout)
    torch.testing.assert_close(made, ((images.double() / 255 - mean) / std).to(dtype))
