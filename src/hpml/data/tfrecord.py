"""The images as TFRecord files, TensorFlow's packed format: a few large files to stream from.

Each record is a `tf.train.Example` with "image", 3072 bytes in the order TensorFlow computes in
(height, width, channel), and "label". A record can be found only by reading those before it, so a
data set is cut into several files, its shards, which are read at the same time
(https://www.tensorflow.org/tutorials/load_data/tfrecord).
"""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from hpml.data.cifar10 import Split
from hpml.errors import UserError
from hpml.files.atomic import whole_folder

if TYPE_CHECKING:
    import tensorflow as tf

SHAPE = (32, 32, 3)


def write(split: Split, folder: Path, *, shards: int = 8, count: int | None = None) -> list[Path]:
    """Write the first `count` images of `split` (default: all) to `folder`; returns the files.

    Image i is in shard i modulo `shards`. The folder appears when all is written, or not at all;
    one that is there already is left as it is. Raises UserError where there is no room for it, for
    shards without an image, where the folder has other shards, and without TensorFlow.
    """
    tf = tensorflow()
    count = len(split) if count is None else min(count, len(split))
    if not 1 <= shards <= count:
        raise UserError(f"tfrecord: {shards} shards of {count} images: give from 1 to {count}")
    names = [f"{number:02d}-of-{shards:02d}.tfrecord" for number in range(shards)]
    if not folder.is_dir():
        with whole_folder(folder) as made:
            for number, name in enumerate(names):
                with tf.io.TFRecordWriter(str(made / name)) as file:
                    for index in range(number, count, shards):
                        file.write(_example(split, index).SerializeToString())
    files = [folder / name for name in names]
    if sorted(folder.glob("*.tfrecord")) != files:
        raise UserError(
            f"tfrecord: {folder} has other shards than {shards}: delete it, or name another"
        )
    return files


def parse(record: "tf.Tensor") -> "tuple[tf.Tensor, tf.Tensor]":
    """One record, a string scalar, to its image, uint8 [32, 32, 3], and its label, int64.

    For `tf.data.Dataset.map`.
    """
    import tensorflow as tf

    features = {
        "image": tf.io.FixedLenFeature((), tf.string),
        "label": tf.io.FixedLenFeature((), tf.int64),
    }
    example = tf.io.parse_single_example(record, features)
    pixels = tf.io.decode_raw(example["image"], tf.uint8)
    return tf.reshape(pixels, SHAPE), example["label"]


def as_written(pipeline: "tf.data.Dataset") -> "tf.data.Dataset":
    """The pipeline without what tf.data does unasked: it adds a prefetch, and maps in parallel."""
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    return pipeline.with_options(options)


def tensorflow(*, remarks: bool = True) -> ModuleType:
    """Import TensorFlow. Without `remarks`, what its C++ parts print on stderr is discarded.

    TF_CPP_MIN_LOG_LEVEL hides only some of it. Python's own stderr is kept. Raises UserError where
    TensorFlow is not installed.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not remarks:
        if sys.stderr is sys.__stderr__:
            sys.stderr = os.fdopen(os.dup(2), "w", buffering=1)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
    try:
        import tensorflow as tf
    except ImportError as error:
        raise UserError(
            f"tfrecord: TensorFlow cannot be imported ({error}): see ./hpml doctor"
        ) from None
    return tf


def _example(split: Split, index: int) -> "tf.train.Example":
    import tensorflow as tf

    image = np.ascontiguousarray(split.images[np.array([index])][0].transpose(1, 2, 0))
    return tf.train.Example(
        features=tf.train.Features(
            feature={
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
                "label": tf.train.Feature(
                    int64_list=tf.train.Int64List(value=[int(split.labels[index])])
                ),
            }
        )
    )
