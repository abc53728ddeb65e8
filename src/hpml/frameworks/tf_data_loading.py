"""tf.data over a TFRecord file, in a process of its own: python -m hpml.frameworks.tf_data_loading

It shuffles, augments and normalises as hpml.measure.loaders does, with parallel maps and a
prefetch. TensorFlow's thread pools and memory stay out of the process that compares.
"""

import json
import subprocess
import sys
from pathlib import Path

from hpml.errors import UserError

LIMIT = 300.0  # seconds


def rate(folder: Path, images: int, batch_size: int, epochs: int = 2, threads: int = 2) -> float:
    """Images per second of the quickest of `epochs` passes over `images` images in `folder`.

    `folder` was written by hpml.data.formats.tfrecord_stream. Raises UserError with the program's
    last line where it fails or takes too long.
    """
    command = [sys.executable, "-m", "hpml.frameworks.tf_data_loading", str(folder)]
    command += [str(images), str(batch_size), str(epochs), str(threads)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise UserError(f"tf.data: no result after {LIMIT:.0f} s: is the machine busy?") from None
    if ended.returncode:
        said = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        raise UserError(f"tf.data: {said[-1]}")
    return float(json.loads(ended.stdout.splitlines()[-1]))


def _measure(folder: Path, images: int, batch_size: int, epochs: int, threads: int) -> float:
    from hpml.data import tfrecord
    from hpml.data.batches import MEAN, STD
    from hpml.data.formats import tfrecord_stream
    from hpml.data.mapped import SHAPE
    from hpml.measure.loading import images_per_second

    tf = tfrecord.tensorflow(remarks=False)

    def decode(record):
        content = tf.io.decode_raw(record, tf.uint8)
        return tf.transpose(tf.reshape(content[1:], SHAPE), (1, 2, 0)), content[0]

    def augment(image, label):
        image = tf.image.random_flip_left_right(image)
        image = tf.pad(image, [[2, 2], [2, 2], [0, 0]], "REFLECT")
        image = tf.image.random_crop(image, (32, 32, 3))
        return (tf.cast(image, tf.float32) / 255 - MEAN) / STD, label

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    pipeline = (
        tf.data.TFRecordDataset(str(folder / tfrecord_stream.NAME))
        .shuffle(images)
        .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(batch_size)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )
    return images_per_second(pipeline, epochs=epochs)


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), *map(int, sys.argv[2:]))))
