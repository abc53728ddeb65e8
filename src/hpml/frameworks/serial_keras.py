"""A small network on CIFAR-10 with Keras, in one process: where the others begin."""

from tensorflow import keras

from hpml.frameworks import task

keras.utils.set_random_seed(task.SEED)
images = task.keras_images("train")
images = images.shuffle(task.IMAGES).batch(task.BATCH)
optimizer = keras.optimizers.SGD(task.LEARNING_RATE, momentum=0.9)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model = task.keras_network()
model.compile(optimizer, loss, metrics=["accuracy"])

counts = task.keras_clock(task.BATCH)
model.fit(images, epochs=task.EPOCHS, callbacks=[counts], verbose=0)

test = task.keras_images("test").batch(task.BATCH)
_, accuracy = model.evaluate(test, verbose=0)
task.report(counts.clock, accuracy)
