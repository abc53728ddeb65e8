# wrong: one rank alone has the callback that averages
# hint: mismatch
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf


def train(
    model: tf.keras.Model,
    x: np.ndarray,
    y: np.ndarray,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    warmup_epochs: int,
) -> dict[str, list[float]]:
    """Train `model` in place, on all ranks; loss and accuracy of each epoch, over all ranks.

    `batch_size` is what each rank takes in one step, `learning_rate` that of one rank alone;
    it rises to that of all ranks in `warmup_epochs`. `len(x)` is a multiple of `batch_size` times
    the number of ranks. Rank 0 prints its progress, as the serial script does.
    """
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(learning_rate * size))
    model.compile(
        optimizer=optimizer,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.LearningRateWarmupCallback(
            initial_lr=learning_rate * size,
            warmup_epochs=warmup_epochs,
            momentum_correction=False,
        ),
    ]
    if rank == 0:
        callbacks.append(hvd.callbacks.MetricAverageCallback())
    history = model.fit(
        x[rank::size],
        y[rank::size],
        batch_size=batch_size,
        epochs=epochs,
        shuffle=False,
        callbacks=callbacks,
        verbose=2 if rank == 0 else 0,
    )
    return history.history
