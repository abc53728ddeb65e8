"""What the frameworks' scripts share: images, network, clock, and the output of a result.

The network is the same in both frameworks: three 3×3 convolutions with 2×2 pooling and a linear
layer, 130,000 weights, each framework's own initial values.
"""

import json
import os
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from hpml.data import load
from hpml.data.batches import MEAN, STD

if TYPE_CHECKING:
    import tensorflow as tf
    import torch

SEED = 0
BATCH = int(os.environ.get("HPML_BATCH", 125))  # images per step of one process
EPOCHS = int(os.environ.get("HPML_EPOCHS", 2))
LEARNING_RATE = 0.02
IMAGES = int(os.environ.get("HPML_IMAGES", 5_000))
TEST_IMAGES = 1_000
WIDTHS = (32, 64, 128)
WARM_UP = 5  # steps: compiling, first touch of memory
RESULT = "result: "


def arrays(split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images float32 [N, 3, 32, 32], normalised, and labels int64 [N]; of "train" or "test"."""
    of = getattr(load(), split)
    chosen = np.arange(IMAGES if split == "train" else TEST_IMAGES)
    mean, std = (np.array(v, np.float32).reshape(3, 1, 1) for v in (MEAN, STD))
    return (of.images[chosen].astype(np.float32) / 255 - mean) / std, of.labels[chosen]


def torch_images(split: str) -> "torch.utils.data.TensorDataset":
    import torch

    images, labels = map(torch.from_numpy, arrays(split))
    # The layout that the fast convolutions want, and TensorFlow's own. Weights keep theirs: Horovod
    # sends contiguous tensors only.
    return torch.utils.data.TensorDataset(
        images.contiguous(memory_format=torch.channels_last), labels
    )


def torch_network() -> "torch.nn.Module":
    from torch import nn

    layers: list[nn.Module] = []
    for inputs, width in zip((3, *WIDTHS), WIDTHS, strict=False):
        layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(16 * WIDTHS[-1], 10))


def torch_accuracy(model: "torch.nn.Module") -> float:
    """The share of the test images that `model` gets right."""
    import torch

    images, labels = torch_images("test").tensors
    with torch.inference_mode():
        return (model(images).argmax(1) == labels).float().mean().item()


def keras_images(split: str) -> "tf.data.Dataset":
    import tensorflow as tf

    images, labels = arrays(split)
    return tf.data.Dataset.from_tensor_slices((images.transpose(0, 2, 3, 1), labels))


def keras_network() -> "tf.keras.Model":
    from tensorflow import keras

    layers = []
    for width in WIDTHS:
        layers.append(keras.layers.Conv2D(width, 3, padding="same", activation="relu"))
        layers.append(keras.layers.MaxPool2D())
    layers += [keras.layers.Flatten(), keras.layers.Dense(10)]
    return keras.Sequential([keras.layers.InputLayer((32, 32, 3)), *layers])


class Clock:
    """Images/s of this process: of its steps but the first few, the median.

    Other programs on the machine make some steps slower, and none quicker.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._last = 0.0
        self._rates: list[float] = []

    def step(self, images: int) -> None:
        """Record the end of a step on `images` images."""
        now = time.perf_counter()
        if self.steps >= WARM_UP:
            self._rates.append(images / (now - self._last))
        self.steps += 1
        self._last = now

    @property
    def images_per_second(self) -> float:
        return statistics.median(self._rates)


def keras_clock(images: int) -> "tf.keras.callbacks.Callback":
    """A callback whose `clock` counts steps of `images` images each."""
    from tensorflow import keras

    class Counts(keras.callbacks.Callback):
        clock = Clock()

        def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
            self.clock.step(images)

    return Counts()


def report(clock: Clock, accuracy: float, ranks: int = 1) -> None:
    """Print the result: ranks, steps, images/s of all ranks, accuracy."""
    tell(
        {
            "ranks": ranks,
            "steps": clock.steps,
            "images_per_second": ranks * clock.images_per_second,
            "accuracy": accuracy,
        }
    )


def tell(record: dict[str, Any]) -> None:
    """Print `record` as one line of JSON behind RESULT."""
    print(RESULT + json.dumps(record), flush=True)


def say(rank: int, text: str) -> None:
    """Print a line of progress, on rank 0 only."""
    if rank == 0:
        print(text, flush=True)
