"""A small network on CIFAR-10 with Keras, in several processes: Horovod."""

import horovod.tensorflow.keras as hvd
from tensorflow import keras

from hpml.frameworks import task

hvd.init()
keras.utils.set_random_seed(task.SEED)
images = task.keras_images("train")
images = images.shard(hvd.size(), hvd.rank())
images = images.shuffle(task.IMAGES).batch(task.BATCH)
optimizer = keras.optimizers.SGD(task.LEARNING_RATE * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model = task.keras_network()
model.compile(optimizer, loss, metrics=["accuracy"])

counts = task.keras_clock(task.BATCH)
broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(root_rank=0)
average = hvd.callbacks.MetricAverageCallback()
model.fit(images, epochs=task.EPOCHS, callbacks=[broadcast, average, counts], verbose=0)

test = task.keras_images("test").batch(task.BATCH)
_, accuracy = model.evaluate(test, verbose=0)
if hvd.rank() == 0:
    task.report(counts.clock, accuracy, hvd.size())
