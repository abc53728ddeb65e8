# %%answer tf_input_pipeline
# unusual: records are parsed many at a time, options say what is deterministic, no AUTOTUNE
import tensorflow as tf

FEATURES = {
    "label": tf.io.FixedLenFeature([], tf.int64),
    "image": tf.io.FixedLenFeature([], tf.string),
}


def parse(records):
    found = tf.io.parse_example(records, FEATURES)
    pixels = tf.io.decode_raw(found["image"], tf.uint8)
    return tf.reshape(pixels, [-1, 8, 8, 3]), found["label"]


def input_pipeline(files, augment, samples, batch_size, seed=None):
    options = tf.data.Options()
    options.deterministic = seed is not None
    return (
        tf.data.TFRecordDataset(files, num_parallel_reads=len(files))
        .batch(64)
        .map(parse)
        .unbatch()
        .cache()
        .shuffle(buffer_size=10 * samples, seed=seed, reshuffle_each_iteration=True)
        .map(lambda image, label: (augment(image), label), num_parallel_calls=8)
        .batch(batch_size, drop_remainder=False)
        .prefetch(3)
        .with_options(options)
    )
