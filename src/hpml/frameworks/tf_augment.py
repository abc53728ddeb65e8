"""Mirror and shift in TensorFlow, one image at a time or a whole batch with each operator.

For `tf.data.Dataset.map`. By a coin an image is mirrored, then it is shifted by up to two pixels
each way, with the pixels at its edges mirrored into what is left free.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def augment(image: "tf.Tensor", label: "tf.Tensor") -> "tuple[tf.Tensor, tf.Tensor]":
    """uint8 [32, 32, 3] to float32 in [0, 1]; the label as it is."""
    import tensorflow as tf

    image = tf.image.random_flip_left_right(image)
    image = tf.pad(image, [[2, 2], [2, 2], [0, 0]], "REFLECT")
    image = tf.image.random_crop(image, (32, 32, 3))
    return tf.cast(image, tf.float32) / 255, label


def augment_batch(images: "tf.Tensor", labels: "tf.Tensor") -> "tuple[tf.Tensor, tf.Tensor]":
    """uint8 [batch, 32, 32, 3] to float32 in [0, 1], each image by draws of its own."""
    import tensorflow as tf

    images = tf.image.random_flip_left_right(images)
    shape = (2, tf.shape(images)[0], 1)
    shifted = tf.random.uniform(shape, -2, 3, tf.int32) + tf.range(32)
    places = 31 - tf.abs(31 - tf.abs(shifted))  # folded back at the edges
    images = tf.gather(images, places[0], axis=1, batch_dims=1)
    images = tf.gather(images, places[1], axis=2, batch_dims=1)
    return tf.cast(images, tf.float32) / 255, labels
