"""The one file of images: as small as promised, and the same images but for rounding."""

import numpy as np
import pytest

from hpml.data import cifar10, load
from hpml.errors import UserError
from hpml.record import images


@pytest.fixture
def photographs() -> np.ndarray:
    """Smooth pictures of weak colours, uint8 [64, 3, 32, 32], from a fixed seed."""
    draw = np.random.default_rng(0)
    coarse = draw.uniform(30, 220, (64, 1, 5, 5)) + draw.uniform(-15, 15, (64, 3, 5, 5))
    smooth = np.stack([np.kron(one, np.ones((1, 7, 7)))[:, :32, :32] for one in coarse])
    for axis in (2, 3) * 3:
        smooth = (smooth + np.roll(smooth, 1, axis) + np.roll(smooth, -1, axis)) / 3
    return smooth.astype(np.uint8)


def test_decoded_images_are_those_encoded_as_near_as_jpeg_is(photographs):
    once = images.decode(images.encode(photographs))
    assert once.shape == photographs.shape
    assert once.dtype == np.uint8
    assert np.abs(once.astype(int) - photographs).mean() < 4


def test_images_that_were_coded_before_come_back_but_for_rounding(photographs):
    once = images.decode(images.encode(photographs))
    twice = images.decode(images.encode(once))
    assert np.abs(twice.astype(int) - once).mean() < 1


def test_it_is_the_same_as_pillows_jpeg(photographs):
    """The reference: libjpeg at quality 75, which is this file's codec but for its last step."""
    import io

    from PIL import Image

    for one in photographs[:8]:
        file = io.BytesIO()
        Image.fromarray(one.transpose(1, 2, 0)).save(file, "JPEG", quality=75)
        theirs = np.array(Image.open(file)).transpose(2, 0, 1)
        ours = images.decode(images.encode(one[None]))[0]
        assert np.abs(ours.astype(int) - theirs).mean() < 1.5


@pytest.fixture
def small_set(tmp_path, monkeypatch, photographs):
    """A folder with 60 images in the binary layout, and the code made to expect so few."""
    monkeypatch.setattr(cifar10, "RECORDS_PER_FILE", 10)
    monkeypatch.setattr(images, "RECORDS_PER_FILE", 10)
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / cifar10.NAMES).write_text("\n".join(cifar10.CLASSES) + "\n")
    for number, name in enumerate((*cifar10.TRAIN, *cifar10.TEST)):
        pixels = photographs[number * 10 : number * 10 + 10].reshape(10, -1)
        records = np.concatenate([np.arange(10, dtype=np.uint8)[:, None], pixels], 1)
        (folder / name).write_bytes(records.tobytes())
    return folder


def test_a_set_becomes_one_file_and_a_folder_again(small_set, tmp_path):
    file = tmp_path / "images.npz"
    told = images.pack(str(small_set), file)
    assert told.startswith(f"{file}: 60 images in 0.0 MiB; a pixel is ")
    folder = images.folder(str(file))
    before, after = load(small_set), load(folder)
    for one, other in ((before.train, after.train), (before.test, after.test)):
        assert one.labels.tolist() == other.labels.tolist()
        apart = one.images[: len(one)].astype(int) - other.images[: len(other)]
        assert np.abs(apart).mean() < 4
    stamp = (folder / cifar10.NAMES).stat().st_mtime_ns
    assert images.folder(str(file)) == folder
    assert (folder / cifar10.NAMES).stat().st_mtime_ns == stamp


def test_a_folder_is_taken_as_it_is(small_set):
    assert images.folder(str(small_set)) == small_set


def test_generated_images_are_not_packed(tmp_path, monkeypatch):
    monkeypatch.delenv("HPML_DATA", raising=False)
    with pytest.raises(UserError, match="only SYNTHETIC images"):
        images.pack(None, tmp_path / "images.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_file_too_large_is_not_left(small_set, tmp_path, monkeypatch):
    monkeypatch.setattr(images, "LARGEST", 100)
    file = tmp_path / "images.npz"
    with pytest.raises(UserError, match="larger than 0 MiB"):
        images.pack(str(small_set), file)
    assert not file.exists()


def test_another_file_is_refused_in_a_line(tmp_path):
    file = tmp_path / "images.npz"
    file.write_text("no archive")
    with pytest.raises(UserError, match=r"neither a folder nor a file of ./hpml record --pack"):
        images.folder(str(file))
    np.savez(file, train_labels=np.zeros(3))
    with pytest.raises(UserError, match=r"is not a file of .* make it again"):
        images.folder(str(file))
