"""What a pipeline of tf.data handed over: which sample each image is, and which call made it."""

from collections.abc import Iterator

import numpy as np

from hpml.checks.contract import Problem, Run
from hpml.modules.m04_frameworks.checks._requested_epochs import epochs_of
from hpml.modules.m04_frameworks.checks._served_augmentations import SHAPE, augmented, scaled
from hpml.ranks.evidence import RankEvidence

# A sample, the number of the call that augmented it (None: it was not asked for), its label
Out = tuple[int, int | None, int]


def made_of(run: Run, stage: str) -> dict[bytes, tuple[int, int | None]]:
    """What `augment` has returned, by its bytes: of which sample, and in which call."""
    given = run.inputs[stage][0]
    if stage == "read":
        images = enumerate(given["images"])
        return {scaled(image, 1.0).tobytes(): (number, None) for number, image in images}
    _, calls = epochs_of(served_rank(run))
    found = {}
    for call, data in enumerate(calls):
        image = np.frombuffer(data, np.uint8).reshape(SHAPE)
        if data in run.expected:
            key = augmented(image, given["gains"], call).tobytes()
            found[key] = (run.expected[data], call)
    return found


def came_out(run: Run, stage: str) -> list[list[list[list[Out]]]] | Problem:
    """By pipeline, epoch and batch, what came out; or why that cannot be read."""
    given = run.inputs[stage][0]
    known = made_of(run, stage)
    found = []
    for value in run.stages[stage].values[0]:
        if isinstance(value, str):
            return Problem(f"input_pipeline returned {value}", "dataset", "a tf.data.Dataset")
        found.append([])
        for number, epoch in enumerate(value, 1):
            found[-1].append([])
            for images, labels in epoch:
                if isinstance(images, str):
                    expected = "float32 [batch, 8, 8, 3] and labels [batch] of integers"
                    return Problem(f"the loop got {images}", "pair", f"images {expected}")
                keys = [image.tobytes() for image in images]
                if strange := [place for place, key in enumerate(keys, 1) if key not in known]:
                    return Problem(
                        f"image {strange[0]} of a batch in epoch {number} is none that augment "
                        "returned for one of the samples",
                        why_strange(images[strange[0] - 1], given["images"]),
                    )
                found[-1][-1].append(
                    [(*known[key], int(label)) for key, label in zip(keys, labels, strict=True)]
                )
            if sum(len(batch) for batch in found[-1][-1]) > 2 * given["samples"]:
                return Problem("an epoch does not end", "repeat", "each sample once")
    return found


def readable(run: Run, stage: str) -> list[list[list[list[Out]]]]:
    """`came_out`, where a claim before has seen that it can be read."""
    found = came_out(run, stage)
    assert not isinstance(found, Problem)
    return found


def why_strange(image: np.ndarray, samples: np.ndarray) -> str:
    """The hint: is it an image that was not augmented?"""
    raw = samples.astype(np.float32)
    return "not_augmented" if any((image == one).all() for one in (*raw, *raw / 255)) else "changed"


def every_epoch(run: Run) -> Iterator[tuple[int, list[list[Out]]]]:
    """The number of each epoch and its batches, of all pipelines. What came out can be read."""
    for stage in ("served", "read"):
        for pipeline in readable(run, stage):
            yield from enumerate(pipeline, 1)


def served_rank(run: Run) -> RankEvidence:
    return run.stages["served"].ranks[0]
