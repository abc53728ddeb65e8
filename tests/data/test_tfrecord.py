"""TFRecord files: every image once, as it was, in as many files as asked for."""

import os
import subprocess
import sys

import numpy as np
import pytest

from hpml.data import load
from hpml.data.tfrecord import as_written, parse, write
from hpml.errors import UserError


@pytest.fixture(scope="module")
def tf():
    """TensorFlow, which takes seconds to import: not while tests are collected."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return pytest.importorskip("tensorflow", reason="tensorflow is not installed")


@pytest.mark.parametrize(("count", "shards"), [(10, 3), (7, 7), (100, 1)])
def test_every_image_is_there_once_with_its_label(tf, whole, tmp_path, count, shards):
    train = load(whole).train
    files = write(train, tmp_path / "records", shards=shards, count=count)
    assert len(files) == shards
    assert sorted(path for path in (tmp_path / "records").iterdir()) == files
    for number, path in enumerate(files):
        index = np.arange(number, count, shards)
        read = list(tf.data.TFRecordDataset(str(path)).map(parse).as_numpy_iterator())
        assert [label for _, label in read] == train.labels[index].tolist()
        for (image, _), expected in zip(read, train.images[index], strict=True):
            assert image.dtype == np.uint8
            np.testing.assert_array_equal(image, expected.transpose(1, 2, 0))


def test_files_that_are_there_are_not_written_again(tf, whole, tmp_path):
    train = load(whole).train
    (first,) = write(train, tmp_path / "records", shards=1, count=5)
    before = first.stat().st_mtime_ns
    assert write(train, tmp_path / "records", shards=1, count=5) == [first]
    assert first.stat().st_mtime_ns == before
    with pytest.raises(UserError, match="has other shards than 2"):
        write(train, tmp_path / "records", shards=2, count=5)


def test_tf_data_adds_nothing_to_a_pipeline_as_written(tf):
    options = as_written(tf.data.Dataset.range(3)).options().experimental_optimization
    assert (options.inject_prefetch, options.apply_default_optimizations) == (False, False)


def test_shards_without_an_image_are_refused(tf, whole, tmp_path):
    with pytest.raises(UserError, match="8 shards of 5 images: give from 1 to 5"):
        write(load(whole).train, tmp_path / "records", shards=8, count=5)
    assert not (tmp_path / "records").exists()


def test_nothing_is_left_of_files_that_were_not_finished(tf, whole, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hpml.data.tfrecord._example", full)
    with pytest.raises(UserError, match="No space left"):
        write(load(whole).train, tmp_path / "records", shards=1, count=5)
    assert list(tmp_path.iterdir()) == []


def test_tensorflows_remarks_are_discarded_and_pythons_stderr_is_not(tf):
    code = (
        "import os, sys\n"
        "from hpml.data.tfrecord import tensorflow\n"
        "tf = tensorflow(remarks=False)\n"
        "tf.io.TFRecordWriter(os.devnull).close()\n"
        "print('python', file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stderr == "python\n"
    assert done.returncode == 0
