"""Exercise fix_the_loader: a loader that is right and slow, put right.

`Loader(path, batch_size, generator)`, whose every iteration is an epoch. What it costs is the
kernel's count of processor time (`_loaded_epochs.py`); what it loads is looked up among all crops
of all images (`_found_crops.py`), and how they are drawn is counted (`_drawn_anew.py`).
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from hpml.checks.contract import CannotJudge, Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING
from hpml.modules.m03_profiling.checks._drawn_anew import fresh, shuffled
from hpml.modules.m03_profiling.checks._loaded_epochs import (
    EPOCHS,
    GIVEN,
    LOADED,
    RECORD,
    ROUNDS,
    SLOWLY,
    STAGES,
    Cost,
    cost,
    inputs,
    opens,
    overall,
)
from hpml.modules.m03_profiling.checks._loader_picture import loader_picture
from hpml.modules.m03_profiling.checks._read_rounds import (
    Found,
    found,
    images_found,
    images_lost,
)

SHARE = 0.1  # of a step's processor time, at most
MENDED = 0.5  # of the given loader's time for an image: with more, it is not mended


def expect(inputs: dict[str, list[dict[str, Any]]], world_size: int) -> list[list[int]]:
    """By round, the number of images of each batch."""
    (given,) = inputs[LOADED]
    number = len(given["files"][0]) // RECORD
    return [
        [min(size, number - start) for start in range(0, number, size)] for size in given["sizes"]
    ]


def images_of(run: Run) -> int:
    """The number of images of a file."""
    return sum(run.expected[0])


def costs(run: Run) -> tuple[Cost, Cost] | CannotJudge:
    """The given loader's cost and the answer's. Both have the cheaper training: an answer that
    makes steps more expensive has no larger ones to hide in."""
    answers = cost(run.stages[LOADED], images_of(run))
    given = cost(run.stages[GIVEN], SLOWLY)
    if answers is None or given is None:
        return CannotJudge("this system does not count the processor time of a process")
    training = min(answers.training, given.training)
    return Cost(given.loading, training), Cost(answers.loading, training)


def unmended(run: Run) -> Problem | None:
    """Of an answer that costs about what the given loader does, nothing counts."""
    if GIVEN not in run.stages:  # a play with injected waits has no launch without the answer
        return None
    both = costs(run)
    if isinstance(both, CannotJudge):
        return None
    given, answers = both
    anywhere = overall(run.stages[LOADED], images_of(run), given.training)
    if anywhere is None:
        return Problem("the answer asked for more than it was given", "start")
    most = max(answers.loading, anywhere)
    if most <= MENDED * given.loading:
        return None
    return Problem(
        f"an image costs {1e6 * most:.0f} µs of processor time, and {1e6 * given.loading:.0f} with "
        "the given loader: that is not mended yet",
        "unmended",
    )


def mended(judge: Callable[[Found], Problem | None]) -> Callable[[Run], Problem | None]:
    """Wrap a judge: it gets what was loaded, where that is images and by a loader that is not as
    slow as the given one."""

    def guarded(run: Run) -> Problem | None:
        what = found(run)
        if isinstance(what, Problem):
            return what
        return unmended(run) or judge(what)

    return guarded


def judge_epochs(what: Found) -> Problem | None:
    if problem := images_lost(what) or what.sizes:
        return problem
    for one in what.rounds:
        for number, epoch in enumerate(one, 1):
            counts = Counter(epoch.image.tolist())
            if missing := len(epoch.image) - len(counts):
                image, often = counts.most_common(1)[0]
                message = f"epoch {number}: {missing} images never come, image {image} comes"
                return Problem(f"{message} {often} times", "cover")
            if (wrong := int((epoch.labels != epoch.expected).sum())) > 0:
                message = f"epoch {number}: {wrong} of {len(counts)} images come with another's"
                return Problem(f"{message} label", "labels")
    return shuffled(what.rounds)


def judge_images(what: Found) -> Problem | None:
    return images_found(what)


def judge_fresh(what: Found) -> Problem | None:
    return images_lost(what) or what.sizes or fresh(what.rounds)


def judge_repeatable(what: Found) -> Problem | None:
    if not what.again:
        message = "two loaders whose generators have equal seeds load other batches"
        return Problem(message, "generator")
    if what.sizes:
        return what.sizes
    first, *others = (one[0] for one in what.rounds)
    for field, drawn in (("image", "order"), ("top", "crops"), ("mirrored", "mirrored images")):
        values = getattr(first, field)
        if np.ptp(values) and all(np.array_equal(values, getattr(one, field)) for one in others):
            message = f"generators with {ROUNDS} different seeds give the same {drawn}"
            not_drawn = judge_epochs(what) if drawn == "order" else None
            return not_drawn or Problem(message, "generator")
    return None


CONTENT = (judge_images, judge_epochs, judge_fresh, judge_repeatable)


def judge_share(run: Run) -> Problem | CannotJudge | None:
    for judge in CONTENT:  # what is left out costs nothing
        if problem := mended(judge)(run):
            return problem
    if GIVEN not in run.stages:
        return None
    both = costs(run)
    if isinstance(both, CannotJudge):
        return both
    given, answers = both
    if answers.share <= SHARE:
        return None
    return Problem(
        f"loading takes {answers.share:.0%} of a step's processor time; with the given loader, "
        f"{given.share:.0%}",
        "slow",
        f"at most {SHARE:.0%}",
    )


def judge_opens(run: Run) -> Problem | CannotJudge | None:
    what = found(run)
    if isinstance(what, Problem):
        return what
    if problem := unmended(run):
        return problem
    most = opens(run.stages[LOADED])
    if most is None:
        return CannotJudge("this machine does not report who opens a file")
    if most == 0:
        return Problem("the file was not opened when it was loaded", "opens")
    number = EPOCHS * max(map(len, run.expected))
    if most > number + 1:  # once for each batch does no harm, nor once more in __init__
        images = EPOCHS * images_of(run)
        message = f"for {images} images in {number} batches the file was opened {most} times"
        return Problem(message, "opens")
    return None


CHECK = Check(
    id="fix_the_loader",
    title="Put a slow loader right",
    names=("Loader",),
    to_write="the same loader, with a fraction of its processor time",
    allowed=ANYTHING,
    picture=loader_picture,
    worlds=(1,),
    process_group=False,
    inputs=inputs,
    expect=expect,
    stages=STAGES,
    shared_folder=True,
    claims=(
        Claim("each image is a crop of one in the file, and normalised", 2, mended(judge_images)),
        Claim(
            "an epoch has each image once, with its label, in a new order", 3, mended(judge_epochs)
        ),
        Claim("crops and mirrored images are drawn anew, all alike", 3, mended(judge_fresh)),
        Claim("the generator alone decides what is drawn", 2, mended(judge_repeatable)),
        Claim("the file is not opened for each image", 1, judge_opens),
        Claim("and loading takes a tenth of a step at most", 4, judge_share),
    ),
    hints={
        "start": "Which line of the given loader runs most often, and how often for one image? "
        "What would a whole batch look like as one tensor of uint8, and which one operation could "
        "do for it what that line does for one pixel?",
        "unmended": "An image has 3072 pixels, and Python's loops take about 0.1 µs for each step "
        "of each of them. Let the loop over pixels go first: read the file as one uint8 tensor of "
        "shape (N, 3073) and slice it.",
        "slow": "What is left in Python that runs once for each image, or on float64? Crop and "
        "mirror as uint8, a quarter of the bytes; divide and normalise the whole batch at once, in "
        "float32.",
        "opens": "The file is one array. np.fromfile or np.memmap opens it once, in __init__, and "
        "an image is then an index.",
        "types": "A batch is what the training step takes: a pair of tensors, images of float32 "
        "and labels of int64, each image with its label at the same place.",
        "last_batch": "The number of images is rarely a multiple of the batch size. The rest is a "
        "batch too: drop it, and some images are missing in each epoch.",
        "batch_size": "A loader is told its batch_size, and only the last batch may have fewer.",
        "cover": "A permutation has each number once. Random numbers have some twice and others "
        "never.",
        "labels": "Images and labels are permuted by the same indices. Which of the two have you "
        "indexed?",
        "order": "Neighbours in a file resemble each other. Draw one permutation of all images, "
        "not of batches, for the epoch, and cut it into batches.",
        "same_order": "An epoch begins when __iter__ is called. What is drawn in __init__ is drawn "
        "once for all epochs, and a generator that is seeded again begins again.",
        "no_crop": "Take one image of known numbers, 3 x 32 x 32, through your code. Is it padded "
        "by 4 on every side, are rows and columns in the right order, does an index that is "
        "negative take a pixel from the other end?",
        "normalise": "(pixel / 255 - MEAN) / STD, once, in float32. A difference of two uint8 that "
        "is negative wraps around: first make it float32, then subtract.",
        "colours": "Each colour has its own MEAN and STD: as tensors of shape (3, 1, 1) they meet "
        "images of shape (B, 3, 32, 32) colour by colour.",
        "padding": "The 4 pixels around are black: 0 before normalising, which is about -2 "
        "afterwards. A 0 after normalising is the mean colour. And float16 or bfloat16 on the way "
        "loses gray levels.",
        "dropped": "Loading gets fast without augmentation, and the network gets worse: it sees "
        "the same pixels in every epoch. It has to stay: as one operation for the batch.",
        "whole_batch": "One draw for the batch is one place, or one coin, for all its images. Draw "
        "B rows, B columns and B coins, and give each image its own rows and columns of pixels: "
        "two indices of shape (B, 32).",
        "kept": "Augmentation is new in each epoch. Whatever is drawn in __init__, or kept from "
        "the first epoch, or drawn from a generator that is seeded anew, is the same in the next.",
        "edge": "A crop of 32 in 40 pixels has 9 places: 0 to 8. The end of torch.randint is left "
        "out, as range leaves it out.",
        "uniform": "All places are equally likely. Rounding puts the first and the last at a "
        "disadvantage, and a normal distribution all but the middle.",
        "coin": "Every second image is mirrored, by a coin of its own.",
        "one_draw": "Row, column and mirroring are three draws. Taken from one number, they give a "
        "few of the 162 combinations, and not all.",
        "generator": "Every draw takes generator=self.generator, or a generator seeded from it: "
        "the global one depends on what else has drawn from it.",
        "limit": "It did not finish in time. Does a loop of Python's still go through pixels? Then "
        "it is about as slow as the given loader, which takes too long on a busy machine. If not: "
        "does the loop over batches end?",
        "hang": "Does the loop over batches end? Does it wait for a process or a queue?",
    },
)
