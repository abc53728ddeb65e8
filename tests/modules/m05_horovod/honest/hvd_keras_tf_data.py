# %%answer hvd_keras
# unusual: a tf.data pipeline with shard and batch, functools.partial, numpy floats in the history
from functools import partial

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

Warmup = partial(hvd.callbacks.LearningRateWarmupCallback, momentum_correction=False, verbose=0)


def train(model, x, y, epochs, batch_per_rank, learning_rate, warmup_epochs):
    hvd.init()
    samples = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank())
    rate = np.float64(learning_rate) * hvd.size()
    model.compile(
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(float(rate))),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(
        samples.batch(batch_per_rank),
        epochs=epochs,
        verbose=2 * (hvd.rank() == 0),
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            Warmup(initial_lr=float(rate), warmup_epochs=warmup_epochs),
        ],
    )
    return {name: list(np.asarray(values)) for name, values in history.history.items()}
