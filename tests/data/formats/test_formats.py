"""Six formats, one behaviour: what was written is read, in order and in any order."""

import tarfile

import numpy as np
import pytest

from hpml.data.formats import FORMATS, hdf5, memory_map, tar, tfrecord_stream
from hpml.data.formats.record import records, sample

COUNT = 300  # more than one block of HDF5, and an uneven last one


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (COUNT, 3, 32, 32), np.uint8)


@pytest.fixture(scope="module")
def labels():
    return np.arange(COUNT) % 10


@pytest.fixture(params=FORMATS)
def opened(request, tmp_path, images, labels):
    kept = FORMATS[request.param]
    kept.write(tmp_path / "images", images, labels)
    reader = kept.open(tmp_path / "images")
    yield reader
    reader.close()


def test_all_images_come_in_the_order_in_which_they_were_written(opened, images, labels):
    read = list(opened)
    np.testing.assert_array_equal([image for image, _ in read], images)
    assert [label for _, label in read] == labels.tolist()


def test_any_image_can_be_asked_for(opened, images, labels):
    assert len(opened) == COUNT
    for index in np.random.default_rng(1).permutation(COUNT).tolist():
        image, label = opened[index]
        np.testing.assert_array_equal(image, images[index])
        assert label == labels[index]


def test_two_passes_are_the_same(opened):
    first, second = list(opened), list(opened)
    np.testing.assert_array_equal([image for image, _ in first], [image for image, _ in second])


def test_an_image_that_is_not_there_is_an_error(opened):
    with pytest.raises((IndexError, ValueError)):
        opened[COUNT]


@pytest.mark.parametrize("name", FORMATS)
def test_a_sample_outlives_its_reader(name, tmp_path, images, labels):
    FORMATS[name].write(tmp_path / "images", images, labels)
    reader = FORMATS[name].open(tmp_path / "images")
    image, _ = reader[7]
    reader.close()
    np.testing.assert_array_equal(image, images[7])


@pytest.mark.parametrize("name", FORMATS)
def test_what_could_not_be_written_leaves_nothing(name, tmp_path, images):
    with pytest.raises(ValueError, match="299 labels and images uint8"):
        FORMATS[name].write(tmp_path / "images", images, np.zeros(COUNT - 1))
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_cut_off_is_not_an_image(images, labels):
    record = records(images, labels)[0]
    with pytest.raises(ValueError, match="3072 bytes, expected 3073"):
        sample(record[:-1])


@pytest.mark.parametrize("module", [tfrecord_stream, hdf5, memory_map, tar])
def test_a_file_that_is_cut_off_is_not_read(module, tmp_path, images, labels):
    kept = next(kept for kept in FORMATS.values() if kept.write is module.write)
    kept.write(tmp_path / "images", images, labels)
    path = tmp_path / "images" / module.NAME
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 + 700)  # within an image
    with pytest.raises((ValueError, OSError, tarfile.ReadError)):
        list(kept.open(tmp_path / "images"))


def test_tensorflow_reads_the_tfrecord_file_and_finds_its_checksums_right(tmp_path, images, labels):
    tf = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    tfrecord_stream.write(tmp_path / "images", images, labels)
    read = tf.data.TFRecordDataset(str(tmp_path / "images" / tfrecord_stream.NAME))
    content = [record.numpy() for record in read]
    assert content == [record.tobytes() for record in records(images, labels)]


def test_crc32c_of_the_nine_digits():
    # The check value of CRC-32/ISCSI is 0xE3069283, here before the mask.
    (masked,) = tfrecord_stream.masked_crc(np.frombuffer(b"123456789", np.uint8)[None])
    unmasked = (int(masked) - 0xA282EAD8) % 2**32
    assert (unmasked << 15 | unmasked >> 17) % 2**32 == 0xE3069283
