"""Exercise global_metrics: loss and accuracy of a data set sharded over the ranks."""

import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional

from hpml.checks.compare import described, is_number
from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.ranks import mark

CLASSES = 5
# Per-sample losses may be float32; sums and quotients may not.
TOLERANCES = {"loss": 1e-6, "accuracy": 1e-12}
KEYS = {"loss": float, "accuracy": float, "samples": int}
LARGEST = 64  # bytes per rank and message: three float64 and room to spare
SETS = ("shards of different lengths", "a rank without samples", "no samples at all")


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank, by data set, its batches: logits float32 (B, 5) and labels int64 (B,).

    Batches are of different lengths, and shards of different quality: on some ranks the labels
    follow the logits, so that a mean of the ranks' means is far from the mean.
    """
    draw = torch.Generator().manual_seed(seed)

    def whole(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=draw))

    def batch(length: int, good: float) -> list[torch.Tensor]:
        logits = torch.randn(length, CLASSES, generator=draw) * 3
        labels = torch.randint(0, CLASSES, (length,), generator=draw)
        sure = torch.rand(length, generator=draw) < good
        return [logits, torch.where(sure, logits.argmax(1), labels)]

    def shard(batches: int, good: float) -> list[list[torch.Tensor]]:
        """Batches of 8 samples, and a last one that is not full."""
        return [batch(8, good) for _ in range(batches)] + [batch(whole(1, 8), 1 - good)]

    empty = whole(0, world_size)
    ranks = []
    for rank in range(world_size):
        good = ((rank + seed) % 2) * 0.9
        # No batch with 2 and 4 ranks, a batch without samples with 3: each check tests both.
        nothing = [[], [batch(0, good)]]
        full = shard(1 + (rank * 3 + seed) % 7, good)
        lacking = nothing[world_size % 2] if rank == empty else shard(1 + rank, good)
        ranks.append({"sets": [full, lacking if world_size > 1 else full[:1], nothing[rank % 2]]})
    return ranks


def drive(answer: ModuleType, inputs: dict[str, Any]) -> list[Any]:
    """The answer's metrics of each data set, whose batches come once, as from a loader."""
    found = []
    for name, batches in zip(SETS, inputs["sets"], strict=True):
        mark(name)
        found.append(answer.global_metrics(iter(batches)))
    return found


def expect(inputs: list[dict[str, Any]], world_size: int) -> list[dict[str, Any]]:
    """By data set: the metrics of one process that has all samples, in float64.

    Also those of usual mistakes: `means`, the mean of the ranks' means; `batches`, the mean of the
    batches' means; `own`, each rank's own.
    """
    expected = []
    for index, name in enumerate(SETS):
        shards = [rank["sets"][index] for rank in inputs]
        own = [metrics(shard) for shard in shards]
        batches = [metrics([batch]) for shard in shards for batch in shard]
        expected.append(
            metrics([batch for shard in shards for batch in shard])
            | {"name": name, "own": own, "means": means(own), "batches": means(batches)}
        )
    return expected


def metrics(batches: list[list[torch.Tensor]]) -> dict[str, float | int]:
    loss = sum(
        functional.cross_entropy(logits.double(), labels, reduction="sum").item()
        for logits, labels in batches
    )
    right = sum(int((logits.argmax(1) == labels).sum()) for logits, labels in batches)
    samples = sum(len(labels) for _, labels in batches)
    if not samples:
        return {"loss": math.nan, "accuracy": math.nan, "samples": 0}
    return {"loss": loss / samples, "accuracy": right / samples, "samples": samples}


def means(parts: list[dict[str, float | int]]) -> dict[str, float]:
    filled = [part for part in parts if part["samples"]]
    return {
        key: sum(part[key] for part in filled) / len(filled) if filled else math.nan
        for key in ("loss", "accuracy")
    }


def replies(run: Run, sets: tuple[int, ...]) -> Iterator[tuple[int, dict[str, Any], Any]]:
    """(rank, expected metrics, that rank's metrics) for these data sets."""
    for index in sets:
        for rank, value in enumerate(run.values):
            said = value[index] if isinstance(value, list) and index < len(value) else None
            yield rank, run.expected[index], said


def unusable(rank: int, expected: dict[str, Any], said: Any) -> Problem | None:
    of = f"{expected['name']}, rank {rank}"
    if not isinstance(said, dict):
        return Problem(f"{of}: returned {described(said)}, not a dict", "types")
    for key, kind in KEYS.items():
        if key not in said:
            return Problem(f"{of}: {key!r} is missing", "types")
        if type(said[key]) is not kind or not is_number(said[key]):
            message = f"{of}: {key} is {described(said[key])}, not of type {kind.__name__}"
            return Problem(message, "types")
    return None


def close(key: str, one: float, other: float, tolerance: float | None = None) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    tolerance = TOLERANCES.get(key, 0.0) if tolerance is None else tolerance
    return abs(one - other) <= tolerance * max(1.0, abs(other))


def misconception(rank: int, expected: dict[str, Any], key: str, said: dict[str, Any]) -> str:
    """The hint for a wrong figure: the usual mistake that explains it."""
    got, own = said[key], expected["own"][rank]
    if own["samples"] != expected["samples"] and said["samples"] == own["samples"]:
        return "own"
    if not rank and expected["samples"] and (said["loss"] == 0 or said["samples"] == 0):
        return "once"  # a loss or a count of nothing, on all ranks together
    if math.isnan(got) or math.isnan(expected[key]):
        return "nan"
    if key != "samples":
        if close(key, got, expected[key], 1e-6):
            return "float64"
        for hint in ("means", "batches"):
            if close(key, got, expected[hint][key], 1e-6):
                return hint
    if close(key, got, own[key], 1e-6):
        return "own"
    if key == "accuracy" and got == int(got):
        return "whole"
    return "own" if rank else "start"  # ranks are compared in turn: rank 0 had it right


def judge_exact(run: Run) -> Problem | None:
    return compare(run, (0,))


def judge_empty(run: Run) -> Problem | None:
    return compare(run, (1, 2))


def compare(run: Run, sets: tuple[int, ...]) -> Problem | None:
    for rank, expected, said in replies(run, sets):
        if problem := unusable(rank, expected, said):
            return problem
        for key in KEYS:
            if not close(key, said[key], expected[key]):
                hint = misconception(rank, expected, key, said)
                return Problem(
                    f"{expected['name']}, rank {rank}: {key} is {said[key]:.9g}",
                    hint,
                    f"{expected[key]:.9g}",
                )
    return None


def judge_agreed(run: Run) -> Problem | None:
    first: dict[str, dict[str, Any]] = {}
    for rank, expected, said in replies(run, (0, 1)):
        if problem := unusable(rank, expected, said):
            return problem
        if said["samples"] != expected["samples"]:  # equal is not enough
            return Problem(
                f"{expected['name']}: rank {rank} counts {said['samples']} samples",
                "own",
                f"{expected['samples']}",
            )
        zero = first.setdefault(expected["name"], said)
        for key in KEYS:
            if said[key] != zero[key] and not (math.isnan(said[key]) and math.isnan(zero[key])):
                return Problem(
                    f"{expected['name']}: {key} is {zero[key]:.6g} on rank 0 and {said[key]:.6g} "
                    f"on rank {rank}",
                    "own",
                )
    return None


def judge_message(run: Run) -> Problem | None:
    for rank in run.evidence.ranks:
        each = len(rank.calls) / len(SETS)
        if each > 1:
            message = f"rank {rank.rank} enters {each:.3g} collectives for one evaluation"
            return Problem(message, "messages")
        if run.world_size > 1 and each < 1:
            count = f"{len(rank.calls)} collective{'s' * (len(rank.calls) != 1)}"
            return Problem(f"rank {rank.rank} enters {count} in {len(SETS)} evaluations", "own")
        for call in rank.calls:
            if call.dtype not in ("float64", "int64"):
                message = f"rank {rank.rank} sends {call.dtype} in {call.operation}"
                return Problem(message, "float64")
            if call.nbytes > LARGEST:
                message = f"rank {rank.rank} sends {call.nbytes} bytes in {call.operation}"
                return Problem(message, "messages")
    return None


HINTS = {
    "start": "Rank 0 has 90 samples and rank 1 has 10: why is the mean of their two means wrong? "
    "A mean over all samples is one sum over all ranks divided by one count over all ranks. "
    "Divide last.",
    "means": "That is the mean of the ranks' means: a rank with 3 samples weighs as much as one "
    "with 300. Means cannot be averaged without their counts; sums can be added.",
    "batches": "That is a mean over batches. The last batch is smaller than the others, and its "
    "mean must weigh less. Count samples.",
    "own": "All ranks must come to the same figures: reduce leaves the sums on one rank, "
    "all_reduce brings them to each. Without either, each rank has only its part.",
    "nan": "The mean of no samples is 0 / 0. A rank or a batch without samples adds 0 to each sum; "
    "only where no rank has any is the mean NaN.",
    "whole": "An accuracy between 0 and 1 has come out as a whole number. Is something divided "
    "with //, or put where only whole numbers fit?",
    "types": "Return a dict of plain Python numbers: .item() takes one out of a tensor, int() and "
    "float() convert.",
    "float64": "float32 counts without gaps only to 2**24 = 16 777 216, and loses small losses in "
    "a large sum. Add up and send in float64; it is three numbers.",
    "messages": "A message's cost is mostly its latency, three times over for three messages. Put "
    "the sums into one tensor, and send no samples.",
    "raised": "Start from the exception: it names a line of your answer. If that works with a "
    "batch on each rank, try a rank without one, and a data set without a sample, by hand.",
    "once": "Batches come once: a second loop over them finds none, and they have no len(). Count "
    "samples in the loop that adds up their losses.",
    "hang": "A rank without samples still has to take part: the others wait for it in all_reduce.",
}

CHECK = Check(
    id="global_metrics",
    title="Accuracy and loss over uneven shards",
    claims=(
        Claim("loss and accuracy are those of one process with all samples", 2, judge_exact),
        Claim("all ranks return the same", 1, judge_agreed),
        Claim("a rank without samples takes part and changes nothing", 1, judge_empty),
        Claim("one small message carries all sums, in float64", 1, judge_message, of_calls=True),
    ),
    hints=HINTS,
    inputs=inputs,
    drive=drive,
    expect=expect,
    names=("global_metrics",),
    to_write="the sums over all ranks' samples",
    allowed="one collective of `torch.distributed`, and anything else that an answer may import",
)
