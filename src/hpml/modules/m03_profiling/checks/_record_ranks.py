"""Record what PyTorch's profiler writes on ranks of which one is late.

    python -m hpml.modules.m03_profiling.checks._record_ranks

It trains on 3 ranks over links of 1 Gbit/s with DistributedDataParallel, and writes
`_recorded_ranks.json.gz`: each job's traces, on the clock that these ranks share. Work is played by
waiting inside ops, so that three ranks run well on two cores.
What is kept of a trace: its spans, without their arguments, and no op under 20 microseconds.
"""

from __future__ import annotations  # `train` is sent by value, without Any

import gzip
import json
from collections.abc import Sequence
from typing import Any

from hpml.modules.m03_profiling.checks._recorded_ranks import JOBS, LATE, RECORDING
from hpml.ranks import launch

RANKS, LINK = 3, "1gbit"
COMPARED = "backward"  # exercise overlap compares when ranks joined a collective
RUNS = 60  # at most, of each job
WORK = (
    "loading",
    "transforms",
    "forward",
    "autograd::engine::evaluate_function: PlayedBackward",
)
SHORTEST = 20  # microseconds, of an op that is kept
FIRST, STEPS = 3, 6  # the number of the first step that is recorded, and how many are


def train(phase: str, since: int, late: int, first: int, steps: int) -> list[dict[str, Any]]:
    """One rank's job; its trace's events. `late` waits longer in `phase`, from step `since` on."""
    import tempfile
    import time

    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    usual = {"loading": 0.010, "transforms": 0.004, "forward": 0.004, "backward": 0.008}
    rank, step = dist.get_rank(), 0

    def work(name: str) -> None:
        more = 3 if rank == late and name == phase and step >= since else 1
        time.sleep(more * usual[name])

    class Played(torch.autograd.Function):
        """An op that does nothing for as long as a layer takes."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            work("forward")
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            work("backward")
            return gradient

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(512, 512)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Played.apply(self.linear(x))

    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(*[Layer() for _ in range(4)]), bucket_cap_mb=0.9
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    window = schedule(wait=first - 1, warmup=1, active=steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=window) as profiler:
        for number in range(first + steps):
            step = number
            with record_function("loading"):
                work("loading")
                x = torch.ones(4, 512)
            with record_function("transforms"):
                work("transforms")
                x = x / 255
            with record_function("forward"):
                loss = model(x).square().mean()
            with record_function("backward"):
                loss.backward()
            with record_function("optimizer"):
                optimizer.step()
                optimizer.zero_grad()
            profiler.step()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/trace.json"
        profiler.export_chrome_trace(path)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
    kept = ("name", "ph", "cat", "pid", "tid", "ts", "dur")
    return [{key: event[key] for key in kept if key in event} for event in events]


def worth_keeping(event: dict[str, Any]) -> bool:
    if event["ph"] != "X":
        return event["name"] == "process_name"
    return event["cat"] != "cpu_op" or event["dur"] >= SHORTEST


def record(job: str) -> list[list[dict[str, Any]]]:
    """The events of each rank, of a run in which the machine held up no rank.

    Raises RuntimeError where a rank does not return, or all runs were held up.
    """
    phase, since = JOBS[job]
    arguments = (phase, since, LATE, FIRST, STEPS)
    for _ in range(RUNS):
        evidence = launch(lambda given: train(*given), RANKS, inputs=[arguments] * RANKS, link=LINK)
        if evidence.diagnosis:
            raise RuntimeError(evidence.diagnosis.sentence)
        undisturbed = all(map(works_evenly, evidence.values))
        if undisturbed and (job != COMPARED or ends_together(evidence.values)):
            return [
                [
                    one | {"ts": round(one["ts"] % 86_400e6, 1)}
                    for one in events
                    if worth_keeping(one)
                ]
                for events in evidence.values
            ]
    raise RuntimeError(f"{job}: in each of {RUNS} runs a rank was held up; is the machine busy?")


def works_evenly(events: list[dict[str, Any]]) -> bool:
    """Whether the rank worked no more than 6 % longer in any step than the shortest such step."""
    steps = [event for event in events if event["name"].startswith("ProfilerStep#")]
    took = []
    for step in steps:
        since, until = step["ts"], step["ts"] + step["dur"]
        inside = [one for one in events if one["name"] in WORK and since < one["ts"] < until]
        took.append(sum(event["dur"] for event in inside))
    shortest = [min(t for t in took if t > 0.85 * one) for one in took]
    return all(one <= 1.06 * least for one, least in zip(took, shortest, strict=True))


def ends_together(traces: Sequence[list[dict[str, Any]]]) -> bool:
    """Whether each collective ended on all ranks within 4 ms."""
    spans = [
        sorted((one["ts"], one["dur"]) for one in events if one["name"].startswith("gloo:"))
        for events in traces
    ]
    ends = [[begin + lasts for begin, lasts in own] for own in spans]
    return all(max(same) - min(same) < 4000 for same in zip(*ends, strict=True))


def main() -> None:
    text = json.dumps({job: record(job) for job in JOBS}, separators=(",", ":"))
    RECORDING.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
