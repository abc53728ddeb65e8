# %%answer tf_input_pipeline
# unusual: all samples are read into tensors at once, and places are shuffled instead of images
import numpy as np
import tensorflow as tf


class Samples:
    def __init__(self, files):
        self.images, self.labels = [], []
        for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            (image,) = feature["image"].bytes_list.value
            self.images.append(np.frombuffer(image, np.uint8).reshape(8, 8, 3))
            self.labels += feature["label"].int64_list.value
        self.images = tf.constant(np.stack(self.images))
        self.labels = tf.constant(self.labels, tf.int64)


def input_pipeline(files, augment, samples, batch_size, seed=None):
    held = Samples(sorted(files))
    if seed is not None:
        tf.random.set_seed(seed)
    places = tf.data.Dataset.range(samples).shuffle(samples)
    pairs = places.map(
        lambda place: (augment(held.images[place]), held.labels[place]),
        num_parallel_calls=4,
        deterministic=True,
    )
    return pairs.batch(batch_size).prefetch(1)
