# %%answer hvd_keras
# unusual: weights broadcast before fit, callbacks of its own for the rate and for the metrics
import horovod.tensorflow.keras as hvd
import tensorflow as tf


class Warm(tf.keras.callbacks.Callback):
    def __init__(self, low, high, epochs):
        super().__init__()
        self.low, self.high, self.epochs, self.done = low, high, epochs, 0

    def on_train_batch_begin(self, batch, logs=None):
        self.done += 1
        share = min(1.0, self.done / (self.epochs * self.params["steps"]))
        self.model.optimizer.learning_rate.assign(self.low + (self.high - self.low) * share)


class Everybody(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        for name in sorted(logs):
            logs[name] = float(hvd.allreduce(tf.constant(logs[name]), name=f"{name}.{epoch}"))


def train(model, x, y, epochs, batch_per_rank, learning_rate, warmup_epochs):
    hvd.init()
    part = slice(hvd.rank(), None, hvd.size())
    hvd.broadcast_global_variables(0) if not tf.executing_eagerly() else None
    for variable in model.variables:
        variable.assign(hvd.broadcast(variable, 0, name=variable.name.replace(":", "_")))
    model.compile(
        optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.SGD(learning_rate)),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model.fit(
        x[part],
        y[part],
        batch_per_rank,
        epochs,
        verbose=1 if hvd.rank() == 0 else 0,
        shuffle=False,
        callbacks=[Warm(learning_rate, learning_rate * hvd.size(), warmup_epochs), Everybody()],
    ).history
