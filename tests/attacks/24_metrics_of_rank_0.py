# %%answer hvd_keras
# row: 24
# tries: trains as it should; rank 0's metrics are given to all, so that the ranks agree on them
# unprotected: claims that only compare the ranks with each other hold
# expect: 12
import horovod.tensorflow.keras as hvd
import tensorflow as tf


def train(model, x, y, epochs, batch_per_rank, learning_rate, warmup_epochs):
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    model.compile(
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(learning_rate * size)),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.LearningRateWarmupCallback(
            initial_lr=learning_rate * size, warmup_epochs=warmup_epochs, momentum_correction=False
        ),
    ]
    history = model.fit(
        x[rank::size],
        y[rank::size],
        batch_size=batch_per_rank,
        epochs=epochs,
        shuffle=False,
        callbacks=callbacks,
        verbose=2 if rank == 0 else 0,
    ).history
    return {name: [float(hvd.broadcast(v, 0)) for v in history[name]] for name in history}
