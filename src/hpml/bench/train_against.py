"""The training script against another recipe: epoch by epoch in turn, in one process.

Other load affects both alike, so the sums of their training seconds can be compared.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from hpml.bench.airbench import Airbench, accuracies
from hpml.bench.table import Row, Table, machine_conditions
from hpml.data import Data, load
from hpml.machine.freed_memory import keep_freed_memory
from hpml.train.config import TrainConfig
from hpml.train.observer import Observers
from hpml.train.requests import Requests
from hpml.train.run import Run

OURS, THEIRS = "hpml train", "airbench94"
TESTED = 500  # images after each epoch; all of them at the end


@dataclass
class Result:
    """Accuracies in [0, 1] of all test images; seconds of training, loading included."""

    plain: float
    augmented: float
    seconds: float
    processor_seconds: float  # of all threads; other programs make these longer only a little


def against(
    data: str | None,
    seeds: Sequence[int] = (0,),
    threads: int = 2,
    epochs: int | None = None,
    say: Callable[[str], None] = print,
) -> Table:
    """Measure both recipes on the processor, from scratch, once for each seed.

    `epochs` replaces both recipes' own number of epochs, for a trial.
    """
    keep_freed_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        images = load(data)
        results = [_pair(images, seed, epochs, say) for seed in seeds]
    finally:
        torch.set_num_threads(before)
    conditions = machine_conditions()
    conditions["data"] = images.describe()
    conditions["runs"] = (
        f"1 process, {threads} threads, seeds {', '.join(map(str, seeds))}; an epoch of each in "
        "turn; time without the tests"
    )
    conditions["test-time augmentation"] = "mirrored, and shifted by a pixel both ways"
    return Table("bench train --against", _rows(results), conditions)


def _pair(data: Data, seed: int, epochs: int | None, say: Callable[[str], None]) -> list[Result]:
    changed = {} if epochs is None else {"epochs": epochs}
    config = TrainConfig(seed=seed, device="cpu", test_samples=TESTED, progress=False, **changed)
    ours = Run(config, data, torch.device("cpu"))
    theirs = Airbench(data, seed, **changed)
    used = [0.0, 0.0]
    observers = Observers()
    while min(ours.progress(), theirs.progress) < 1:
        mine = ours.progress() <= theirs.progress
        started = time.process_time()
        if mine:
            ours.train_epoch(Requests(), observers)
            name, done, seconds = OURS, ours.progress(), ours.history(False).seconds
        else:
            theirs.train_epoch()
            name, done, seconds = THEIRS, theirs.progress, theirs.seconds
        used[not mine] += time.process_time() - started
        say(f"seed {seed}, {name}: {done:.0%} done, {seconds:.0f} s of training")
    results = []
    for name, network, logits, seconds, processor in (
        (OURS, ours.network, ours.logits, ours.history(False).seconds, used[0]),
        (THEIRS, theirs.network, theirs.logits, theirs.seconds, used[1]),
    ):
        result = Result(*accuracies(network, logits, data), seconds, processor)
        say(f"seed {seed}, {name}: {result}")
        results.append(result)
    return results


def _rows(results: Sequence[Sequence[Result]]) -> list[Row]:
    rows = []
    for what, field, unit, scale, target in (
        ("test accuracy", "plain", "%", 100, "at least 90 %, and above 1"),
        ("with test-time augmentation", "augmented", "%", 100, ""),
        ("training", "seconds", "min", 1 / 60, "below 1"),
        ("training, processor time", "processor_seconds", "min", 1 / 60, "below 1"),
    ):
        ours, theirs = (
            [scale * getattr(pair[number], field) for pair in results] for number in (0, 1)
        )
        rows.append(Row(f"{THEIRS}: {what}", theirs, unit))
        rows.append(Row(f"{OURS}: {what}", ours, unit, f"{THEIRS}: {what}", target))
    return rows
