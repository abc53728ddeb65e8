"""Exercise tf_input_pipeline: from TFRecord files to shuffled, augmented batches, made ahead.

`input_pipeline(files, augment, samples, batch_size, seed=None)` returns a tf.data.Dataset. How it
is seen what it does and when: `_served_augmentations.py`, `_requested_epochs.py`. What came out:
`_handed_over.py`, `_epoch_orders.py`.
"""

import itertools
from dataclasses import replace
from typing import Any

from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run, Stage
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m04_frameworks.checks._epoch_orders import (
    batches_alike,
    file_distance,
    order_of,
    resemblance,
)
from hpml.modules.m04_frameworks.checks._handed_over import (
    came_out,
    every_epoch,
    readable,
    served_rank,
)
from hpml.modules.m04_frameworks.checks._requested_epochs import (
    Epoch,
    epochs_of,
    opened_by_epoch,
    read_by_epoch,
)
from hpml.modules.m04_frameworks.checks._served_augmentations import (
    EPOCHS,
    FILES,
    inputs,
    iterate,
    iterate_alone,
    serve,
)

# Of 30,000 runs whose orders were drawn from all orders, the worst had 0.24 and 0.80.
RESEMBLE = 0.35  # mean correlation of two epochs' orders
WITHIN = 0.5  # the same of epochs of one pipeline only, of which there are fewer pairs
STAY = 0.6  # mean distance of neighbours in a file, of what it is among all orders
# Of 4,000 runs, a buffer for one batch had at least 0.50 and 0.37, files one after the other at
# most 0.74 and 0.12.
SAME_PLACES = 0.5  # correlation of orders: each sample stays near the place where it was read
BY_FILES = 0.3  # distance of neighbours: one file follows the other
TOGETHER = 0.8  # of the pairs in a batch, those that share one in another epoch too
ENOUGH = 0.5  # of the samples, in an epoch: else it shows nothing
MEET = 1 / 8  # of the augmentations, those that must be seen to run beside another: else it is none
SIMILAR = 0.6  # the correlation of two orders that differ by which of two images was ready first


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> dict[bytes, int]:
    """The samples' numbers, by the bytes of their images."""
    images = inputs["served"][0]["images"]
    return {image.tobytes(): number for number, image in enumerate(images)}


def unreadable(run: Run) -> Problem | None:
    found = (came_out(run, stage) for stage in ("served", "read"))
    return next((one for one in found if isinstance(one, Problem)), None)


def too_little(run: Run) -> Problem | None:
    """What keeps claims about how samples are made from being judged: an epoch has hardly any."""
    if problem := unreadable(run):
        return problem
    samples = run.inputs["served"][0]["samples"]
    for epoch, batches in every_epoch(run):
        if (got := sum(map(len, batches))) < ENOUGH * samples:
            return Problem(f"epoch {epoch} has {got} samples", "lost", f"{samples}")
    return None


def each_sample_once(run: Run) -> Problem | None:
    if problem := unreadable(run):
        return problem
    given = run.inputs["served"][0]
    size, samples = given["batch_size"], given["samples"]
    for epoch, batches in every_epoch(run):
        got = [sample for batch in batches for sample, _, _ in batch]
        for sample, _, label in (one for batch in batches for one in batch):
            if label != given["labels"][sample]:
                return Problem(
                    f"an image of epoch {epoch} has the label {label}",
                    "labels",
                    f"{given['labels'][sample]}",
                )
        sizes = [len(batch) for batch in batches]
        if any(one != size for one in sizes[:-1]) or sizes[-1:] > [size]:
            wrong = next(one for one in sizes if one != size)
            whole, left = divmod(samples, size)
            moved = sorted(sizes) == [left, *[size] * whole]  # the sizes are right, not their order
            return Problem(
                f"batch {sizes.index(wrong) + 1} of epoch {epoch} has {wrong} samples",
                "batches" if moved else "batch",
                f"{size}",
            )
        if len(got) > len(set(got)):
            return Problem(f"a sample comes twice in epoch {epoch}", "twice")
        if len(got) < samples:
            hint = "remainder" if len(got) == samples // size * size else "lost"
            return Problem(f"epoch {epoch} has {len(got)} samples", hint, f"{samples}")
    return None


def fresh(run: Run) -> Problem | None:
    if problem := too_little(run):
        return problem
    asked = {(one.pipeline, one.epoch): one.spans for one in epochs_of(served_rank(run))[0]}
    for number, pipeline in enumerate(readable(run, "served")):
        first_seen: dict[int | None, int] = {}
        for epoch, batches in enumerate(pipeline, 1):
            for _, call, _ in (one for batch in batches for one in batch):
                before = first_seen.setdefault(call, epoch)
                if before < epoch:
                    return Problem(
                        f"in epoch {epoch} comes an augmented image that came in epoch {before}",
                        "frozen",
                    )
                if call not in asked.get((number, epoch - 1), {}):
                    return Problem(
                        f"in epoch {epoch} comes an image that was augmented before it began",
                        "beforehand",
                    )
        if len(pipeline) < EPOCHS:
            return Problem(f"there were {len(pipeline)} epochs", "repeat", f"{EPOCHS}")
    return None


def orders(run: Run, stage: str, pipeline: int) -> list[list[int]]:
    return [order_of(batches) for batches in readable(run, stage)[pipeline]]


def shuffled_anew(run: Run) -> Problem | None:
    if problem := each_sample_once(run):
        return problem
    pipelines = readable(run, "served")
    all_orders = [orders(run, "served", number) for number in range(len(pipelines))]
    for own in all_orders:
        if own[0] == own[1] or own[1] == own[2]:
            return Problem("two epochs of one pipeline have the same order", "same_order")
    every = [order for own in all_orders for order in own]
    found, stay = resemblance(every), file_distance(every)
    within = sum(map(resemblance, all_orders)) / len(all_orders)
    # Four files in a random order are often in nearly the same one: that is not a small buffer.
    by_files = stay < (BY_FILES if found > SAME_PLACES else STAY)
    alike = max(found, within)
    if (found > RESEMBLE or within > WITHIN) and not by_files:
        return Problem(
            f"the epochs' orders resemble each other: their correlation is {alike:.2f}",
            "small_buffer",
            "about 0, as of orders drawn from all orders",
        )
    if (share := batches_alike([epoch for own in pipelines for epoch in own])) > TOGETHER:
        return Problem(
            f"{share:.0%} of the pairs of samples in a batch share a batch in other epochs too",
            "batches",
        )
    if stay < STAY:
        return Problem(
            f"neighbours in a file come out near each other: {stay:.2f} times as far apart as "
            "where each order is as likely as any other",
            "neighbours",
        )
    return None


def reads_once(run: Run) -> Problem | CannotJudge | None:
    if problem := too_little(run):
        return problem
    rank, files = run.stages["read"].ranks[0], run.inputs["read"][0]["files"]
    opened, read = opened_by_epoch(rank, files), read_by_epoch(rank)
    if opened is None:
        return CannotJudge("this machine does not report who opens a file")
    for epoch, (before, after) in enumerate(itertools.pairwise(opened[1:]), 2):
        if after > before:
            return Problem(
                f"in epoch {epoch} files were opened {after - before} times", "not_cached", "0"
            )
    # By another name, or from a copy. Each time: an import in one epoch is not a reading
    size = sum(map(len, files.values()))
    if read is not None and min(b - a for a, b in itertools.pairwise(read[1:])) >= size:
        return Problem(
            "in each epoch after the first, as many bytes were read as the files have", "not_cached"
        )
    return None


def at_work(run: Run) -> list[Epoch] | Problem:
    """The epochs in which something was augmented, each with the calls whose images came out."""
    used = {
        call
        for pipeline in readable(run, "served")
        for epoch in pipeline
        for batch in epoch
        for _, call, _ in batch
    }
    epochs = [
        replace(one, spans={call: span for call, span in one.spans.items() if call in used})
        for one in epochs_of(served_rank(run))[0]
    ]
    found = [one for one in epochs if one.spans]
    return found or Problem("augment was not called in any epoch", "beforehand")


def side_by_side(run: Run) -> Problem | None:
    if problem := too_little(run):
        return problem
    epochs = at_work(run)
    if isinstance(epochs, Problem):
        return epochs
    met, calls = sum(one.overlapping() for one in epochs), sum(len(one.spans) for one in epochs)
    if met < MEET * calls:
        return Problem(f"{met} of {calls} augmentations ran at the same time as another", "in_turn")
    return None


def made_ahead(run: Run) -> Problem | None:
    if problem := too_little(run):
        return problem
    given = run.inputs["served"][0]
    size, samples = given["batch_size"], given["samples"]
    epochs = at_work(run)
    if isinstance(epochs, Problem):
        return epochs
    if all(not one.steps or one.begun_by(one.steps[0][0]) >= samples for one in epochs):
        return Problem("all images were augmented before an epoch's first step", "all_first")
    # Of each step in which something is left to do: what the next batch lacks at its end
    lacks = [
        min(samples, (number + 1) * size) - epoch.ended_by(last + 1)
        for epoch in epochs
        for number, (first, last) in enumerate(epoch.steps, 1)
        if epoch.ended_by(first) < min(samples, (number + 1) * size)
    ]
    late = sum(lack > 0 for lack in lacks)
    if late > len(lacks) / 2:
        return Problem(
            f"at the end of {late} of {len(lacks)} steps, images of the next batch were not "
            "augmented yet, however long the step took",
            "turns",
        )
    return None


def repeats_with_a_seed(run: Run) -> Problem | None:
    problem = shuffled_anew(run)
    if problem and problem.hint not in ("small_buffer", "batches", "neighbours"):
        return problem
    one, other = orders(run, "served", 0), orders(run, "read", 1)
    if one != other:
        pairs = [[*pair] for pair in zip(one, other, strict=True)]
        alike = sum(map(resemblance, pairs)) / len(pairs)
        return Problem(
            "two pipelines of one seed hand over the samples in different orders",
            "completion" if alike > SIMILAR else "unseeded",
        )
    if one == orders(run, "served", 1):
        return Problem(
            "without a seed, the order is the same as in a pipeline with a seed", "always_seeded"
        )
    if orders(run, "read", 0) == orders(run, "served", 1):
        return Problem("two pipelines without a seed have the same orders", "always_seeded")
    return None


CHECK = Check(
    id="tf_input_pipeline",
    title="From files to batches with tf.data",
    names=("input_pipeline",),
    to_write="`input_pipeline`, which returns a `tf.data.Dataset`",
    allowed=ANYTHING,
    flavour="tensorflow",
    worlds=(1,),
    process_group=False,
    shared_folder=True,
    inputs=inputs,
    expect=expect,
    stages=(
        Stage("served", iterate, serve=serve),
        Stage("read", iterate_alone, serve=serve, looks=True, opens=FILES),
    ),
    claims=(
        Claim("each epoch has each sample once, with its label", 2, each_sample_once),
        Claim("each epoch's augmentations are fresh", 3, fresh),
        Claim("each epoch is shuffled anew, sample by sample", 2, shuffled_anew),
        Claim("from the second epoch on no file is opened", 1, reads_once),
        Claim("augmentations run side by side", 1, side_by_side),
        Claim("the next batch is made during a step", 2, made_ahead),
        Claim("with a seed the order is the same each time", 1, repeats_with_a_seed),
    ),
    hints={
        "start": "Read, decode, keep, shuffle, augment, batch, make ahead. Ask of each stage: is "
        "it the same in each epoch, or new? What is the same comes before cache, what is new "
        "after.",
        "dataset": "Return the dataset itself: the check makes the loop over it.",
        "pair": "An element is a pair of a batch's images and its labels. What augment returns is "
        "float32 already; the label is decoded as int64. Does batch come after the map?",
        "not_augmented": "Every image goes through augment, on its way from the files to a batch.",
        "changed": "The images that come out are those that augment returned, as they are, made "
        "from the images in the records. Is a record decoded as uint8 and put into its shape, "
        "(height, width, channel)?",
        "repeat": "A loop over the dataset is one epoch: the check makes the loop several times. "
        "With repeat() an epoch has no end.",
        "labels": "Image and label stay a pair through all stages: one dataset of pairs, not two "
        "datasets that are shuffled each by itself.",
        "batch": "batch_size samples make a batch, and the last one has what is left. Is anything "
        "else in between that joins or splits batches?",
        "twice": "Each file is read once in an epoch, and each sample handed over once. Where does "
        "your pipeline take a sample a second time?",
        "remainder": "The last batch may be smaller: its samples belong to the epoch too.",
        "lost": "Which files, or which samples of a file, does your pipeline not come to? take, "
        "skip, shard and cycle_length are places to look.",
        "frozen": "A cache keeps what reaches it in the first epoch, with whatever was drawn by "
        "then, and hands out the same in every other epoch. Which stage draws, and on which side "
        "of the cache is it?",
        "beforehand": "What is augmented when the pipeline is made, or in an epoch before, is "
        "not a new draw. Let the pipeline call augment while an epoch goes on.",
        "same_order": "Which stage shuffles, and does it draw anew in each epoch? What comes "
        "before a cache is drawn once. shuffle has a switch for it too, which is on unless "
        "somebody turns it off.",
        "small_buffer": "shuffle(n) takes the next sample at random from a buffer of n: no sample "
        "can come out more than n places before its turn. To make every order possible the buffer "
        "has to hold all samples; and it has to draw anew in each epoch.",
        "batches": "What is shuffled are batches: the same samples share one again and again, and "
        "the smaller one comes anywhere. On which side of batch does shuffle belong?",
        "neighbours": "To shuffle the files, or a few samples at a time, leaves what is near in a "
        "file near in the epoch. One buffer for all samples makes every order possible.",
        "not_cached": "After the first epoch the samples are known. Which stage keeps them in "
        "memory, and does it come after the reading?",
        "in_turn": "One augmentation began when the one before it had ended. map has an argument "
        "for how many calls may be under way, on the map that calls augment.",
        "turns": "Step and pipeline took turns. One stage makes its elements before anybody asks "
        "for them; what it makes should be whole batches, so where does it belong?",
        "all_first": "The first step waited until every image was augmented. A stage that has to "
        "fill up before its first element comes out waits for all that comes before it: which one "
        "is it here, and what should come after it?",
        "unseeded": "With a seed the order is to be the same in each run: who draws the order, and "
        "is the seed handed on to it?",
        "completion": "The two orders differ by a few places: whichever image was ready first came "
        "out first. tf.data can keep the order of elements although several are made at the same "
        "time, and does so unless it is told otherwise.",
        "always_seeded": "seed=None means another order in each run: hand on what input_pipeline "
        "was given, and not a number of your own.",
        "raised": "The exception is TensorFlow's, and its last lines say most: does a feature's "
        "name or dtype differ from the text's, or does augment get something else than one image, "
        "uint8 (8, 8, 3)?",
        "hang": "Nothing moves any more. Does a function in a map wait for something that another "
        "stage is to bring?",
        "limit": "Does a loop of your own run over a dataset that repeats without end?",
    },
)
