"""An `augment` that a rank has to ask for, and steps that last: what a pipeline does, and when.

In the rank, `augment` asks this process for each image's augmented form, and the drive asks while
it computes on a batch. The server lets two augmentations, or an augmentation and a step, wait for
each other, so that what overlaps is seen as an order of requests and not as seconds: nobody has to
be fast. Each reply is an image of its own, and what came out is compared with the replies.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from hpml.checks.seeds import derived
from hpml.data.formats import tfrecord_stream
from hpml.modules.m04_frameworks.checks._example_record import example
from hpml.ranks import Reply, Server, ask

SHAPE = (8, 8, 3)
CLASSES = 10
SHARDS = 4
FILES = tuple(f"{shard:02d}-of-{SHARDS:02d}.tfrecord" for shard in range(SHARDS))
THREADS = 4  # fewer than a batch has samples: to call augment in parallel makes no batch ahead
EPOCHS = 3  # of each pipeline
NAP = 0.001  # seconds between two questions whether an augmentation or a step may end
# How long one may wait for what does not come: naps of one wait, and of all of a kind in a launch
ALONE, IDLE, FIRST = 25, 60, 600
ALL = 600


# Made in the parent


def inputs(seed: int, world_size: int) -> dict[str, list[dict[str, Any]]]:
    """By stage, for each rank: TFRecord files by name, how many samples, the batch size, a seed for
    each pipeline to be made. The pipelines of "read" are those of "served", in another process and
    the other way round: one without a seed is made before any seed was set."""
    pick = random.Random(derived(seed, "samples"))
    draw = np.random.default_rng(derived(seed, "images"))
    batch = pick.choice((6, 7))
    number = batch * pick.choice((4, 5)) + pick.randint(1, batch - 1)
    images = draw.integers(0, 256, (number, *SHAPE), np.uint8)
    labels = draw.integers(0, CLASSES, number)
    files = {}
    for shard in range(SHARDS):
        records = [
            np.frombuffer(example(images[index], int(labels[index])), np.uint8)
            for index in range(shard, number, SHARDS)
        ]
        files[FILES[shard]] = tfrecord_stream.framed(np.stack(records)).tobytes()
    order = pick.randrange(2**31)
    given = {
        "files": files,
        "samples": number,
        "batch_size": batch,
        "seeds": [order, None],
        "images": images,
        "labels": labels,
        "gains": derived(seed, "gains"),
    }
    return {"served": [given], "read": [given | {"seeds": [None, order]}]}


def augmented(image: np.ndarray, gains: int, call: int) -> np.ndarray:
    """What `augment` returns in a call: uint8 to float32, darker by a gain of its own."""
    return scaled(image, random.Random(f"{gains} {call}").uniform(0.25, 1.0))


def scaled(image: np.ndarray, gain: float) -> np.ndarray:
    """uint8 to float32 in [0, gain]."""
    return (image.astype(np.float64) * (gain / 255)).astype(np.float32)


# In a rank


def iterate(answer: ModuleType, inputs: dict[str, Any]) -> list[Any]:
    """What comes out of each pipeline, by epoch and batch; or a text: what is there instead."""
    return run(answer, inputs, with_steps=True)


def iterate_alone(answer: ModuleType, inputs: dict[str, Any]) -> list[Any]:
    """The same with an `augment` that asks nobody and leaves images as they are, and no steps."""
    return run(answer, inputs, with_steps=False)


def run(answer: ModuleType, inputs: dict[str, Any], with_steps: bool) -> list[Any]:
    import os
    from pathlib import Path

    import tensorflow as tf

    for name, content in inputs["files"].items():
        Path(name).write_bytes(content)
    names = [os.path.abspath(name) for name in inputs["files"]]

    def of_image(image: np.ndarray) -> np.ndarray:
        if not with_steps:
            return scaled(image, 1.0)
        reply = ask({"augment": image.tobytes()})
        while isinstance(reply, int):
            time.sleep(NAP)
            reply = ask({"goes on": reply})
        return reply

    @tf.autograph.experimental.do_not_convert
    def augment(image: Any) -> Any:
        if image.dtype != tf.uint8 or not image.shape.is_compatible_with(SHAPE):
            raise TypeError(
                f"augment takes one image, uint8 {list(SHAPE)}: this is {image.dtype.name} "
                f"{image.shape}"
            )
        return tf.ensure_shape(tf.numpy_function(of_image, [image], tf.float32), SHAPE)

    options = tf.data.Options()
    # As written: tf.data would add a prefetch by itself, and make some maps parallel.
    options.experimental_optimization.apply_default_optimizations = False
    options.experimental_optimization.inject_prefetch = False
    options.threading.private_threadpool_size = THREADS  # for the functions of all stages
    found: list[Any] = []
    for seed in inputs["seeds"]:
        pipeline = answer.input_pipeline(
            names, augment, inputs["samples"], inputs["batch_size"], seed
        )
        if not isinstance(pipeline, tf.data.Dataset):
            found.append(f"a {type(pipeline).__name__}")
            continue
        pipeline, epochs = pipeline.with_options(options), []
        found.append(epochs)
        for epoch in range(EPOCHS):
            ask({"epoch": epoch})
            epochs.append(one_epoch(pipeline, 2 * inputs["samples"], with_steps))
            if sum(len(labels) for _, labels in epochs[-1]) > 2 * inputs["samples"]:
                return found  # it repeats without end
        ask("end")
    return found


def one_epoch(pipeline: Any, most: int, with_steps: bool) -> list[Any]:
    """The batches, each [images, labels]; [text, []] in place of what is not such a pair."""
    batches: list[Any] = []
    for element in pipeline:
        batches.append(pair_of(element))
        over = not with_steps or ask("step")
        while not over:
            time.sleep(NAP)
            over = ask("stepping")
        if sum(len(labels) for _, labels in batches) > most:
            break
    return batches


def pair_of(element: Any) -> list[Any]:
    if not isinstance(element, tuple | list) or len(element) != 2:
        return [f"a {type(element).__name__}, not a pair", []]
    images, labels = (part.numpy() for part in element)
    if images.ndim != 1 + len(SHAPE) or labels.ndim != 1 or len(images) != len(labels):
        return [f"images {list(images.shape)} and labels {list(labels.shape)}", []]
    if images.dtype != np.float32 or labels.dtype.kind not in "iu":
        return [f"images of {images.dtype.name} and labels of {labels.dtype.name}", []]
    return [images, labels.astype(np.int64)]


# In the parent: what is served


@dataclass
class Served:
    """One rank's augmentations and steps so far.

    An augmentation ends once another that began later has ended, or if it is the later one of
    those under way; so of two under way the later one ends first. As many as the last batch has
    wait for the epoch's first step, and a step lasts until as many samples
    as a batch has are augmented beyond those that were handed over. What can no longer come is not
    waited for, and patience ends each wait: it is counted in questions and not in seconds, so that
    a slow machine has as much of it.
    """

    given: dict[str, Any]
    calls: list[np.ndarray] = field(default_factory=list)  # of the whole launch
    first: int = 0  # the first call of this epoch
    under_way: list[int] = field(default_factory=list)
    overtaken: set[int] = field(default_factory=set)
    steps: int = 0  # of this epoch
    naps: dict[Any, int] = field(default_factory=dict)  # of each wait that goes on
    waited: dict[str, int] = field(default_factory=dict)  # naps of each kind of wait

    def reply(self, request: Any) -> Any:
        if isinstance(request, dict) and "augment" in request:
            return self.augment(request["augment"])
        if isinstance(request, dict) and request.get("goes on") in self.under_way:
            return self.goes_on(request["goes on"])
        if isinstance(request, dict) and isinstance(request.get("epoch"), int):
            self.first, self.steps = len(self.calls), 0
            self.under_way, self.overtaken = [], set()
            return None
        if request == "step":
            self.steps += 1
            return self.step()
        if request == "stepping":
            return self.step()
        if request == "end":
            return None
        raise ValueError("that is not served")

    @property
    def begun(self) -> int:
        """Augmentations of this epoch."""
        return len(self.calls) - self.first

    @property
    def ended(self) -> int:
        return self.begun - len(self.under_way)

    def augment(self, data: Any) -> Any:
        if not isinstance(data, bytes) or len(data) != int(np.prod(SHAPE)):
            raise ValueError(f"augment takes an image of shape {SHAPE}")
        self.calls.append(np.frombuffer(data, np.uint8).reshape(SHAPE))
        self.under_way.append(len(self.calls) - 1)
        self.naps.pop("batch", None)
        return self.goes_on(len(self.calls) - 1)

    def goes_on(self, call: int) -> Any:
        """The augmented image, or the call's number: ask again."""
        if self.waits_for_a_step(call) or self.waits_for_another(call):
            return call
        self.overtaken |= {other for other in self.under_way if other < call}
        self.under_way.remove(call)
        self.naps.pop("batch", None)
        return augmented(self.calls[call], self.given["gains"], call)

    def waits_for_a_step(self, call: int) -> bool:
        early = call - self.first < self.given["samples"] - self.given["batch_size"]
        return not early and self.steps == 0 and self.patient("step", call, FIRST)

    def waits_for_another(self, call: int) -> bool:
        later = call != min(self.under_way)
        over = self.begun >= self.given["samples"]
        overtaken = call in self.overtaken
        return not (later or over or overtaken) and self.patient("another", call, ALONE)

    def step(self) -> bool:
        """Whether the step is over."""
        batch, samples = self.given["batch_size"], self.given["samples"]
        enough = self.ended >= min(samples, (self.steps + 1) * batch)
        nothing_comes = self.begun == 0
        return enough or nothing_comes or not self.patient("batch", "batch", IDLE)

    def patient(self, kind: str, who: Any, most: int) -> bool:
        """Whether to wait for another nap. A wait for a batch counts from the last time that an
        augmentation began or ended."""
        self.naps[who] = self.naps.get(who, 0) + 1
        self.waited[kind] = self.waited.get(kind, 0) + 1
        return self.naps[who] <= most and self.waited[kind] <= ALL


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: what an augmentation draws stays here."""
    served = [Served(given) for given in ranks]
    kept = ("images", "labels", "gains")
    sent = [{name: v for name, v in given.items() if name not in kept} for given in ranks]

    def reply(rank: int, request: Any) -> list[Reply]:
        return [Reply(rank, served[rank].reply(request))]

    return sent, reply
