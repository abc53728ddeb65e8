"""A transformer split over ranks in each way: images/s and peak bytes; and a pipeline's bubble.

Every way trains the same network on the same images, and must come to the same loss. Ways of the
training script are compared with data parallel, the exercises' own answers with the training
script's way.
"""

import math
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from hpml import answer as learners
from hpml.bench import bubble
from hpml.bench.network import check_launch
from hpml.bench.shard_ways import LEARNING_RATE, MICRO_BATCHES, SIZE, WAYS, Way, train
from hpml.bench.table import Row, Table, machine_conditions
from hpml.course import schedule
from hpml.errors import UserError
from hpml.network.link import format_rate, parse_rate
from hpml.paths import CHECKOUT
from hpml.ranks import Evidence, launch

WORLD_SIZES = (2, 4)
RATES = (None, "1gbit")
BATCH = 32  # images in a step of all ranks together
STEPS = 4  # of a launch; the first is not counted
SAME = 1e-3  # how far losses may be apart, relative
LIMIT = 120.0

# World size, rate of the links or None, name of the way
Case = tuple[int, str | None, str]


def bench(
    rounds: int = 3,
    world_sizes: Sequence[int] = WORLD_SIZES,
    rates: Sequence[str | None] = RATES,
    ways: Sequence[Way] = WAYS,
    report: Callable[[str], None] = print,
) -> Table:
    """Measure in `rounds` rounds, each with all cases; `report` gets lines on the way.

    Exercises without an answer here (in a release) are left out. Raises UserError where a launch
    fails, a way comes to another loss, and where this machine cannot emulate a network.
    """
    conditions = machine_conditions()
    answers = solutions(Path(CHECKOUT))
    ways = [way for way in ways if not way.exercise or way.exercise in answers]
    speeds: dict[Case, list[float]] = {}
    peaks: dict[Case, list[float]] = {}
    bubbles: dict[int, list[float]] = {}
    for number in range(rounds):
        for world_size in world_sizes:
            fit = [way for way in ways if way.least <= world_size]
            for rate in rates:
                losses = {}
                for way in fit:
                    evidence = launched(way, world_size, rate, answers.get(way.exercise))
                    speeds.setdefault((world_size, rate, way.name), []).append(speed(evidence))
                    losses[way.name] = loss(evidence)
                same_loss(losses)
                report(f"round {number + 1} of {rounds}: {_ranks(world_size, rate)}")
            for way in fit:
                answer = answers.get(way.exercise)
                evidence = launched(way, world_size, None, answer, count_memory=True)
                peaks.setdefault((world_size, None, way.name), []).append(peak(evidence))
        for count, share in bubble.measure().items():
            bubbles.setdefault(count, []).append(share)
        report(f"round {number + 1} of {rounds}: peak memory and bubble")
    conditions["step"] = (
        f"{BATCH} images of all ranks together, the transformer of --size {SIZE}, float32, AdamW "
        f"({LEARNING_RATE:g}), one thread a rank; pipelines with {MICRO_BATCHES} micro-batches; "
        f"median of {STEPS - 1} steps, barrier to barrier; {rounds} rounds interleaved"
    )
    conditions["ways"] = (
        "those of ./hpml train (DistributedDataParallel, ZeroRedundancyOptimizer, fully_shard, "
        "ColwiseParallel and RowwiseParallel, its own 1F1B), and the course's answers to the "
        "exercises; that of gpipe sends float64"
    )
    conditions["peak"] = (
        "of the rank that has most, beyond what it held at the start, as the kernel counts, of "
        "other launches; the network is made whole on every rank first"
    )
    cores = len(os.sched_getaffinity(0))
    if max(world_sizes) > cores:
        conditions["cores"] = (
            f"{cores}, which {max(world_sizes)} ranks share: their images/s do not show how "
            "more machines would scale"
        )
    conditions["bubble"] = bubble.CONDITION
    rows = [
        *_rows(speeds, ways, "", "images/s"),
        *_rows(peaks, ways, ": peak of a rank", "MB"),
        *bubble.rows(bubbles),
    ]
    return Table("bench shard", rows, conditions)


def solutions(root: Path) -> dict[str, str]:
    """The course's own answers of module 07, by exercise; none in a release."""
    script = root / schedule.load().module("07").solution.with_suffix(".py")
    if not script.is_file():
        return {}
    return {one.exercise: learners.as_python(one.source) for one in learners.read(script)}


def launched(
    way: Way,
    world_size: int,
    rate: str | None,
    answer: str | None = None,
    count_memory: bool = False,
) -> Evidence:
    """One launch of `STEPS` steps. UserError where it fails."""

    def drive(*given):
        # With an answer, it comes first.
        *module, (one, batch, steps) = given
        return train(module[0] if module else None, one, batch, steps)

    evidence = launch(
        drive,
        world_size,
        answer=answer,
        inputs=[(way, BATCH, STEPS)] * world_size,
        link=rate,
        count_memory=count_memory,
        timeout=LIMIT,
    )
    if rate is None and evidence.diagnosis is not None:
        raise UserError(f"bench shard: {way.name}: {evidence.diagnosis.sentence}")
    if rate is not None:
        check_launch(evidence, f"bench shard: {way.name}")
    return evidence


def speed(evidence: Evidence) -> float:
    """Images/s of all ranks together in the median step, by its slowest rank."""
    by_step = zip(*(seconds for seconds, _ in evidence.values), strict=True)
    return BATCH / statistics.median([max(step) for step in by_step][1:])


def loss(evidence: Evidence) -> float:
    """Of the last step, over all images."""
    return statistics.mean(own for _, own in evidence.values if own is not None)


def same_loss(losses: dict[str, float]) -> None:
    """Raise UserError where a way has come to another loss than the first: it trains otherwise."""
    first, expected = next(iter(losses.items()))
    for name, found in losses.items():
        if not math.isclose(found, expected, rel_tol=SAME):
            raise UserError(
                f"bench shard: after {STEPS} steps the loss is {found:.4f} with {name}, "
                f"{expected:.4f} with {first}: it does not train the same"
            )


def peak(evidence: Evidence) -> float:
    """Peak MB (1e6 bytes) of the rank that has most. UserError where the system does not count."""
    found = [rank.peak_bytes for rank in evidence.ranks]
    if None in found:
        raise UserError("bench shard: this system does not count the peak memory of a process")
    return max(found) / 1e6


def _rows(taken: dict[Case, list[float]], ways: Sequence[Way], what: str, unit: str) -> list[Row]:
    by_name = {way.name: way for way in ways}

    def name(world_size: int, rate: str | None, way: str) -> str:
        return f"{_ranks(world_size, rate)}, {way}{what}"

    rows = []
    for (world_size, rate, of), values in taken.items():
        way = by_name[of]
        base = way.base if way.base != of and (world_size, rate, way.base) in taken else None
        rows.append(
            Row(
                name(world_size, rate, of),
                values,
                unit,
                base=name(world_size, rate, base) if base else None,
                target=way.target if unit == "images/s" else "",
            )
        )
    return rows


def _ranks(world_size: int, rate: str | None) -> str:
    return f"{world_size} ranks, {format_rate(parse_rate(rate))}" if rate else f"{world_size} ranks"
