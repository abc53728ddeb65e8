"""The bubble of a pipeline beside the formula: four stages whose compute is played by waiting."""

from collections.abc import Sequence

from hpml.bench.table import Row
from hpml.errors import UserError
from hpml.predict.pipeline import bubble as formula
from hpml.ranks import launch
from hpml.trace.computations import computations, idle_share
from hpml.trace.repetition import quickest

STAGES = 4
COUNTS = (1, 2, 4, 8, 16)
FORWARD, BACKWARD = 0.100, 0.200  # seconds of a micro-batch: long beside sending one
STEPS = 3  # the quickest counts
CONDITION = (
    f"share of the ranks' time in which they compute nothing, {STAGES} ranks, torch's "
    f"ScheduleGPipe; compute is played by waiting, {1e3 * FORWARD:g} ms forward and "
    f"{1e3 * BACKWARD:g} ms backward; the quickest of {STEPS} steps; the formula is "
    "(p - 1) / (m + p - 1) (Huang et al. 2019, GPipe, section 2.3)"
)


def measure(stages: int = STAGES, counts: Sequence[int] = COUNTS) -> dict[int, float]:
    """The bubble, from 0 to 1, by number of micro-batches. UserError where the launch fails."""
    inputs = {"counts": tuple(counts), "seconds": (FORWARD, BACKWARD), "steps": STEPS}
    evidence = launch(_steps, stages, inputs=[inputs] * stages, timeout=120.0)
    if evidence.diagnosis is not None:
        raise UserError(f"bench shard: the pipeline: {evidence.diagnosis.sentence}")
    found = {}
    for m in counts:
        step = quickest(evidence, since=f"m = {m} begins", until=f"m = {m} ends")
        found[m] = idle_share(computations(step))
    return found


def rows(taken: dict[int, list[float]], stages: int = STAGES) -> list[Row]:
    """For each number of micro-batches the formula, and what was measured in each round; in %."""
    found = []
    for m, shares in taken.items():
        by_formula = f"bubble, m = {m}: by the formula"
        found.append(Row(by_formula, [100 * formula(stages, m)] * len(shares), "%"))
        measured = [100 * share for share in shares]
        name = f"bubble, m = {m}: measured"
        found.append(Row(name, measured, "%", base=by_formula, target="0.90 to 1.10"))
    return found


def _steps(inputs: dict) -> None:
    """On a rank: for each number m of micro-batches some steps, each between two marks."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    from hpml.models.waiting import Waiting
    from hpml.ranks import mark
    from hpml.trace.computations import watch

    rank, world_size = dist.get_rank(), dist.get_world_size()
    batch = torch.ones(max(inputs["counts"]), 8)
    for m in inputs["counts"]:
        stage = PipelineStage(Waiting(*inputs["seconds"]), rank, world_size, torch.device("cpu"))
        watch(stage)
        schedule = ScheduleGPipe(stage, m, loss_fn=lambda output, target: output.sum())
        for _ in range(inputs["steps"]):
            dist.barrier()
            mark(f"m = {m} begins")
            given = [batch] if stage.is_first else []
            schedule.step(*given, target=batch if stage.is_last else None)
            mark(f"m = {m} ends")
