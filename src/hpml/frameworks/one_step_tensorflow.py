"""One training step in TensorFlow: eager, as a tf.function, or compiled by XLA.

The network of `hpml.models.residual`, written with TensorFlow's own operators. Images are
[B, H, W, C] and filters [H, W, in, out] here, TensorFlow's layouts.
"""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from hpml.frameworks.one_step import LEARNING_RATE, MOMENTUM, Given, Running

STATISTICS, EPSILON = 0.1, 1e-5  # of PyTorch's batch normalisation: share of the new, ε


def eager(given: Given, wrapped: Callable = lambda function: function) -> Running:
    """The network run line by line; `wrapped` is what its functions are put through."""
    images = tf.constant(given.images.transpose(0, 2, 3, 1))
    labels = tf.constant(given.labels)
    values = {
        name: tf.Variable(_to_tensorflow(value), trainable=name in given.learned)
        for name, value in given.weights.items()
        if not name.endswith("num_batches_tracked")
    }
    learned = {name: values[name] for name in given.learned}
    momentum = {name: tf.Variable(tf.zeros_like(value)) for name, value in learned.items()}

    @wrapped
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = _logits(values, given.stages, images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, list(learned.values()))
        for (name, value), gradient in zip(learned.items(), gradients, strict=True):
            momentum[name].assign(MOMENTUM * momentum[name] + gradient)
            value.assign_sub(LEARNING_RATE * momentum[name])
        return loss

    @wrapped
    def forward(images: tf.Tensor) -> tf.Tensor:
        return _logits(values, given.stages, images, training=False)

    return Running(
        lambda: forward(images).numpy(),
        lambda: float(step(images, labels)),
        lambda: {name: _to_torch(values[name].numpy()) for name in given.changed},
    )


def graph(given: Given) -> Running:
    """`eager`, its step as one graph: tf.function."""
    return eager(given, tf.function)


def xla(given: Given) -> Running:
    """`graph`, compiled by XLA."""
    return eager(given, tf.function(jit_compile=True))


def _logits(values: dict[str, tf.Variable], stages: int, x: tf.Tensor, training: bool) -> tf.Tensor:
    """Images [B, H, W, 3] to logits [B, classes], as ResidualNetwork.forward."""

    def block(x: tf.Tensor, name: str, pool: bool) -> tf.Tensor:
        x = tf.nn.conv2d(x, values[f"{name}.convolution.weight"], 1, "SAME")
        if pool:
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
        return tf.nn.gelu(_normalised(x, values, f"{name}.norm", training), approximate=False)

    x = tf.nn.gelu(tf.nn.conv2d(x, values["stem.weight"], 1, "VALID"), approximate=False)
    for stage in range(stages):
        x = block(x, f"stages.{stage}.down", pool=True)
        x = x + block(x, f"stages.{stage}.branch", pool=False)
    return tf.reduce_max(x, [1, 2]) @ tf.transpose(values["head.weight"]) / 9


def _normalised(
    x: tf.Tensor, values: dict[str, tf.Variable], name: str, training: bool
) -> tf.Tensor:
    """Batch normalisation; in training by the batch's statistics, which the running ones follow."""
    scale, offset = values[f"{name}.weight"], values[f"{name}.bias"]
    means, variances = values[f"{name}.running_mean"], values[f"{name}.running_var"]
    if not training:
        x, *_ = tf.compat.v1.nn.fused_batch_norm(
            x, scale, offset, means, variances, EPSILON, is_training=False
        )
        return x
    x, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, scale, offset, epsilon=EPSILON)
    means.assign_add(STATISTICS * (mean - means))
    variances.assign_add(STATISTICS * (variance - variances))  # unbiased, as in PyTorch
    return x


def _to_tensorflow(value: np.ndarray) -> np.ndarray:
    return value.transpose(2, 3, 1, 0) if value.ndim == 4 else value


def _to_torch(value: np.ndarray) -> np.ndarray:
    return value.transpose(3, 2, 0, 1) if value.ndim == 4 else value
