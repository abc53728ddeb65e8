# %%answer tf_input_pipeline
# unusual: records are cached and shuffled undecoded; a whole batch is augmented by map_fn
import tensorflow as tf


@tf.function
def decode(records):
    spec = dict(
        image=tf.io.FixedLenFeature((), tf.string), label=tf.io.FixedLenFeature((), "int64")
    )
    parsed = tf.io.parse_example(records, spec)
    images = tf.map_fn(
        lambda data: tf.reshape(tf.io.decode_raw(data, tf.uint8), (8, 8, 3)),
        parsed["image"],
        fn_output_signature=tf.uint8,
    )
    return images, parsed["label"]


def input_pipeline(files, augment, samples, batch_size, seed=None):
    def augment_batch(images, labels):
        return tf.map_fn(augment, images, fn_output_signature=tf.float32), labels

    order = tf.data.Dataset.list_files(files, shuffle=False)
    records = order.interleave(
        lambda name: tf.data.TFRecordDataset(name), cycle_length=2, block_length=3
    )
    records = records.cache().shuffle(samples + 1, seed)
    batches = records.batch(batch_size).map(decode, tf.data.AUTOTUNE)
    return batches.map(augment_batch, num_parallel_calls=2).prefetch(2)
