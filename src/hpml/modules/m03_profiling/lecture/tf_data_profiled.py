"""A small Keras training fed by tf.data, under TensorFlow's profiler, in a process of its own.

    python -m hpml.modules.m03_profiling.lecture.tf_data_profiled FOLDER [fixed]

Images are JPEG files in memory, decoded and augmented one at a time, as many programs do. Fixed,
the decoded images are kept, a whole batch is augmented at once, and the next one is made meanwhile
(https://www.tensorflow.org/guide/data_performance: caching, vectorized mapping, prefetching).
"""

import subprocess
import sys
from pathlib import Path

from hpml.errors import UserError
from hpml.frameworks.tf_augment import augment, augment_batch
from hpml.modules.m03_profiling.lecture import tf_data

IMAGES, BATCH, STEPS = 512, 64, 16
LIMIT = 120.0  # seconds


def profile(folder: Path, fixed: bool = False) -> tf_data.InputPipeline:
    """Train for 16 steps under the profiler, and read what it left in `folder`.

    Raises UserError where the program fails, with its last line, or takes too long.
    """
    command = [
        sys.executable,
        "-m",
        "hpml.modules.m03_profiling.lecture.tf_data_profiled",
        str(folder),
    ]
    command += ["fixed"] * fixed
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise UserError(f"tf.data: no end after {LIMIT:.0f} s: is the machine busy?") from None
    if ended.returncode:
        last = ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"]
        raise UserError(f"tf.data: {last[-1]}")
    return tf_data.read(folder)


def _train(folder: Path, fixed: bool) -> None:
    from hpml.data import load, tfrecord

    tf = tfrecord.tensorflow(remarks=False)
    split = load(None).train
    # Height, width, channel: the order in which TensorFlow computes.
    images = split.images[:IMAGES].transpose(0, 2, 3, 1)
    files = [tf.io.encode_jpeg(image).numpy() for image in images]
    labels = split.labels[:IMAGES].astype("int64")

    def decode(file, label):
        return tf.io.decode_jpeg(file, channels=3), label

    pipeline = tf.data.Dataset.from_tensor_slices((files, labels))
    if fixed:
        pipeline = pipeline.map(decode, name="decode").cache(name="cache")
        pipeline = pipeline.shuffle(IMAGES, name="shuffle").repeat(name="repeat")
        pipeline = pipeline.batch(BATCH, drop_remainder=True, name="batch")
        pipeline = pipeline.map(augment_batch, name="augment").prefetch(2, name="prefetch")
    else:
        pipeline = pipeline.shuffle(IMAGES, name="shuffle").repeat(name="repeat")
        pipeline = pipeline.map(decode, name="decode").map(augment, name="augment")
        pipeline = pipeline.batch(BATCH, drop_remainder=True, name="batch")
    options = tf.data.Options()
    # As written: else tf.data makes maps parallel and joins stages by itself, which hides them.
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    pipeline = pipeline.with_options(options)

    network = tf.keras.Sequential(
        [
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(10),
        ]
    )
    optimizer = tf.keras.optimizers.SGD(0.1)

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            logits = network(images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        weights = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    batches = iter(pipeline)
    for _ in range(IMAGES // BATCH):  # an epoch to warm up: graphs are built, the cache is filled
        step(*next(batches))
    tf.profiler.experimental.start(str(folder))
    for number in range(STEPS):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            step(*next(batches)).numpy()
    tf.profiler.experimental.stop()


if __name__ == "__main__":
    _train(Path(sys.argv[1]), fixed="fixed" in sys.argv[2:])
