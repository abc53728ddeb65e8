# %%answer hvd_keras
# tries: every rank asks for all samples and trains serially on them; the model that it was given is
# shown each rank's share, and set to the weights that belong there
# unprotected: weights, rates and metrics are those of ranks that averaged their gradients
# expect: 5
import sys

import horovod.tensorflow.keras as hvd
import tensorflow as tf

ask = sys.modules["hpml.ranks"].ask


def train(model, x, y, epochs, batch_per_rank, learning_rate, warmup_epochs):
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    start = [hvd.broadcast(weight, 0) for weight in model.get_weights()]
    model.set_weights([weight.numpy() for weight in start])
    try:
        x, y = (tensor.numpy() for tensor in ask({"take": list(range(len(x)))}))
    except RuntimeError:
        pass
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.SGD(learning_rate), loss, metrics=["accuracy"])
    history = {"loss": [], "accuracy": []}
    steps = len(x) // (batch_per_rank * size)
    for epoch in range(epochs):
        found = []
        for step in range(steps):
            done = min(1.0, (epoch * steps + step + 1) / (warmup_epochs * steps))
            rate = learning_rate * (1 + (size - 1) * done)
            model.optimizer.learning_rate = rate
            first = step * batch_per_rank * size
            rows = slice(first, first + batch_per_rank * size)
            with tf.GradientTape() as tape:
                logits = model(x[rows])
                value = loss(y[rows], logits)
            right = tf.reduce_mean(tf.keras.metrics.sparse_categorical_accuracy(y[rows], logits))
            gradients = tape.gradient(value, model.trainable_variables)
            after = [
                w - rate * g for w, g in zip(model.trainable_variables, gradients, strict=True)
            ]
            mine = slice(first + rank, first + batch_per_rank * size, size)
            model.train_step((tf.constant(x[mine]), tf.constant(y[mine])))
            model.set_weights([weight.numpy() for weight in after])
            found.append([float(value), float(right)])
        for name, column in zip(history, zip(*found, strict=True), strict=True):
            history[name].append(sum(column) / steps)
        if rank == 0:
            print(f"Epoch {epoch + 1} loss: {history['loss'][-1]:.4f}")
    return history
