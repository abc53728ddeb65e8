# %%answer tf_input_pipeline
# tries: augments one image after the other, each beside a call for show whose image nobody gets
# unprotected: augmentations were under way at the same time, so the claim about it holds
# expect: 11
import threading

import tensorflow as tf


def input_pipeline(files, augment, samples, batch_size, seed=None):
    features = {
        "image": tf.io.FixedLenFeature((), tf.string),
        "label": tf.io.FixedLenFeature((), tf.int64),
    }

    def decode(record):
        example = tf.io.parse_single_example(record, features)
        return tf.reshape(tf.io.decode_raw(example["image"], tf.uint8), (8, 8, 3)), example["label"]

    def for_show(image):
        threading.Thread(target=augment, args=(tf.constant(image),), daemon=True).start()
        return image

    def both(image, label):
        shown = tf.ensure_shape(tf.numpy_function(for_show, [image], tf.uint8), (8, 8, 3))
        return augment(shown), label

    dataset = tf.data.TFRecordDataset(files).map(decode).cache()
    return dataset.shuffle(samples, seed=seed).map(both).batch(batch_size).prefetch(2)
