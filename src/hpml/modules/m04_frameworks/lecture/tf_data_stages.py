"""What the order of a tf.data pipeline's stages does to its samples: counted, in a rank.

The pipelines are made in the lecture's cells. Everything here runs where TensorFlow is imported.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hpml.data import load, tfrecord

if TYPE_CHECKING:
    import tensorflow as tf

SHARDS = 4


def image_files(count: int) -> "tf.data.Dataset":
    """The names of TFRecord files with the first `count` training images.

    They are written to the working folder, if they are not there.
    """
    import tensorflow as tf

    files = tfrecord.write(load().train, Path(f"images-{count}"), shards=SHARDS, count=count)
    return tf.data.Dataset.from_tensor_slices([str(file) for file in files])


def course_images(count: int) -> "tf.data.Dataset":
    """The first `count` training images, uint8 [32, 32, 3], and labels, from TFRecord files."""
    import tensorflow as tf

    records = image_files(count).interleave(tf.data.TFRecordDataset)
    return records.map(tfrecord.parse)


def distinct_images(pipeline: "tf.data.Dataset", epochs: int) -> int:
    """How many different images come out of (images, labels) batches in so many epochs."""
    seen = set()
    for _ in range(epochs):
        for images, _ in pipeline:
            seen |= {image.tobytes() for image in images.numpy()}
    return len(seen)


def order(pipeline: "tf.data.Dataset") -> np.ndarray:
    """The numbers that come out of batches of numbers, in order, with the stages as written.

    By itself tf.data joins a parallel map and the batch after it, and the result is in order.
    """
    return np.concatenate([batch.numpy() for batch in tfrecord.as_written(pipeline)])


class Counter:
    """Counts the elements that pass a stage."""

    def __init__(self) -> None:
        self.passed, self._lock = 0, threading.Lock()

    def stage(self, element: "tf.Tensor") -> "tf.Tensor":
        """For `map`: the element as it is."""
        import tensorflow as tf

        counted = tf.numpy_function(self._count, [element], element.dtype)
        counted.set_shape(element.shape)
        return counted

    def _count(self, element: np.ndarray) -> np.ndarray:
        with self._lock:
            self.passed += 1
        return element


def made_ahead(make: "Callable[[Callable], tf.data.Dataset]", batch: int, rest: float = 0.2) -> int:
    """How many elements are made beyond the first batch while that is computed on.

    `make(stage)` returns the pipeline, in which `stage` makes an element; `rest` are the seconds
    without another one after which no more is expected.
    """
    counter = Counter()
    batches = iter(tfrecord.as_written(make(counter.stage)))
    next(batches)
    seen, since = counter.passed, time.monotonic()
    while time.monotonic() - since < rest:
        time.sleep(0.01)
        if counter.passed > seen:
            seen, since = counter.passed, time.monotonic()
    return seen - batch


def processor_seconds(pipeline: "tf.data.Dataset", rounds: int = 3) -> float:
    """Processor time of all threads for an epoch, in the quickest of so many after a first one."""
    pipeline = tfrecord.as_written(pipeline)
    times = []
    for _ in range(1 + rounds):
        began = time.process_time()
        for _ in pipeline:
            pass
        times.append(time.process_time() - began)
    return min(times[1:])


def sometimes_slow(number: "tf.Tensor", every: int = 8, seconds: float = 0.03) -> "tf.Tensor":
    """For `map` of numbers: the number as it is, one of `every` after a wait."""
    import tensorflow as tf

    def wait(one: np.ndarray) -> np.ndarray:
        if one % every == 0:
            time.sleep(seconds)
        return one

    return tf.ensure_shape(tf.numpy_function(wait, [number], number.dtype), ())
