"""Examples written without TensorFlow."""

import numpy as np
import pytest

from hpml.data.formats.tfrecord_stream import framed
from hpml.modules.m04_frameworks.checks._example_record import example


@pytest.mark.xdist_group("tensorflow")
def test_tensorflow_reads_them(tmp_path):
    tf = pytest.importorskip("tensorflow")
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (3, 8, 8, 3), np.uint8)
    rows = [
        np.frombuffer(example(image, label), np.uint8)
        for image, label in zip(images, (0, 5, 127), strict=True)
    ]
    (tmp_path / "some.tfrecord").write_bytes(framed(np.stack(rows)).tobytes())
    for number, record in enumerate(tf.data.TFRecordDataset(str(tmp_path / "some.tfrecord"))):
        read = tf.train.Example.FromString(record.numpy()).features.feature
        assert read["image"].bytes_list.value[0] == images[number].tobytes()
        assert list(read["label"].int64_list.value) == [(0, 5, 127)[number]]
    assert number == 2
    large = tf.train.Example.FromString(example(images, 10**12)).features.feature
    assert list(large["label"].int64_list.value) == [10**12]
    assert large["image"].bytes_list.value[0] == images.tobytes()
