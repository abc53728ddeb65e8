"""The gain of Horovod's tensor fusion: many small tensors with and without it, then one large.

The bytes are the same each time; the number of collectives differs.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hpml.bench.network import check_launch
from hpml.bench.table import Row, Table, machine_conditions
from hpml.network.link import format_rate, parse_rate
from hpml.ranks import Evidence, launch
from hpml.trace.horovod_timeline import WITHOUT_TENSOR, Timeline, collectives
from hpml.trace.horovod_timeline_file import read

RATES = ("1gbit", "100mbit")
WORLD_SIZE = 2
TENSORS, LENGTH = 200, 1_000  # float32: 4 kB each
STEPS = 6  # the first is not counted: Horovod registers the tensors
OFF = {"HOROVOD_FUSION_THRESHOLD": "0"}


@dataclass(frozen=True)
class Case:
    """The tensors that are averaged in a step, and Horovod's settings."""

    name: str
    tensors: int
    length: int  # elements of each
    settings: tuple[tuple[str, str], ...] = ()


SMALL_OFF = Case("fusion off", TENSORS, LENGTH, tuple(OFF.items()))
SMALL_ON = Case("fusion on", TENSORS, LENGTH)
LARGE = Case("one large", 1, TENSORS * LENGTH)
CASES = (SMALL_OFF, SMALL_ON, LARGE)


@dataclass(frozen=True)
class Measured:
    """One step: seconds of the slowest rank, collectives, bytes that a rank sent, and of that
    rank's seconds the processor time of its own calls, to hand tensors over and to collect them.
    """

    seconds: float
    collectives: float
    sent_bytes: float
    calls: float = 0.0


def bench(
    rounds: int = 5,
    rates: Sequence[str] = RATES,
    report: Callable[[str], None] = print,
) -> Table:
    """Measure in `rounds` rounds, each with all cases; `report` gets a line for each round.

    Raises UserError without Horovod, and where this machine cannot emulate a network.
    """
    conditions = machine_conditions()
    conditions["step"] = (
        f"{TENSORS} float32 tensors of {4 * LENGTH / 1e3:g} kB, fusion off and on; or one large of "
        f"{4 * TENSORS * LENGTH / 1e3:g} kB; hvd.allreduce_async_ of all, then hvd.synchronize of "
        f"all, on {WORLD_SIZE} ranks with one thread each"
    )
    conditions["rounds"] = f"{rounds}, after one that is not counted; median of {STEPS - 1} steps"
    conditions["collectives"] = "all-reduces in Horovod's timeline, which was on all the time"
    conditions["sent"] = (
        "by each rank in a step, as the kernel counts at its interface, headers, negotiation and "
        "acknowledgements included"
    )
    taken: dict[tuple[str, Case], list[Measured]] = {}
    for number in range(rounds + 1):
        for rate in rates:
            for case in CASES:
                measured = measure(case, rate)
                if number:
                    taken.setdefault((rate, case), []).append(measured)
        report(f"round {number} of {rounds}" if number else "warmed up")
    rows = [row for rate in rates for row in _rows(rate, taken)]
    return Table("bench fusion", rows, conditions)


def quickest_step(case: Case, rate: str, file: Path) -> tuple[Measured, Timeline]:
    """The quickest step of one launch, and its part of the timeline, which is written to `file`.

    `sent_bytes` are those of the whole launch over its steps. Raises UserError as `bench` does.
    """
    evidence = _launched(case, rate, dict(case.settings) | {"HOROVOD_TIMELINE": str(file)}, STEPS)
    by_step = [max(ranks) for ranks in zip(*evidence.values, strict=True)]
    whole = read(file)
    # On a busy machine the file may end before the last step does.
    recorded = [k for k in range(1, STEPS) if _is_whole(whole.round(k), case)]
    number = min(recorded or range(1, STEPS), key=by_step.__getitem__)
    timeline = whole.round(number)
    count = len(collectives(timeline))
    seconds, calls = by_step[number]
    return Measured(seconds, count, _sent(evidence) / STEPS, calls), timeline


@dataclass(frozen=True)
class Comparison:
    """The quickest step of each case over links of each rate, with its part of the timeline."""

    steps: dict[tuple[str, Case], tuple[Measured, Timeline]]  # by rate, such as "1gbit", and case

    def messages(self, rate: str, case: Case) -> int:
        return int(self.steps[rate, case][0].collectives)

    def ratios(self, case: Case, other: Case) -> dict[str, float]:
        """Seconds of `case` over those of `other`, by rate."""
        rates = dict.fromkeys(rate for rate, _ in self.steps)
        return {
            rate: self.steps[rate, case][0].seconds / self.steps[rate, other][0].seconds
            for rate in rates
        }

    def __str__(self) -> str:
        return "\n".join(
            f"{format_rate(parse_rate(rate)):11} {case.name:10} {_messages(one.collectives):>12} "
            f"{1e3 * one.seconds:7.1f} ms {one.sent_bytes / 1e6:5.2f} MB sent by a rank"
            for (rate, case), (one, _) in self.steps.items()
        )


class Remains(NamedTuple):
    """In ms: how much `longer` fused tensors take than one large one, the processor time of their
    `calls`, and what Horovod records of both."""

    longer: float
    calls: float
    fused: float
    large: float

    @property
    def held(self) -> bool:
        """Whether the calls explain a part of it."""
        return 0 < self.calls < self.longer


def what_remains(found: Comparison, rate: str) -> Remains:
    """Why fused tensors take longer than one large tensor, over links of `rate`."""
    (fused, fused_timeline), (one, one_timeline) = (
        found.steps[rate, case] for case in (SMALL_ON, LARGE)
    )
    seconds = fused.seconds - one.seconds, fused.calls, traced(fused_timeline), traced(one_timeline)
    return Remains(*(1e3 * each for each in seconds))


def traced(timeline: Timeline) -> float:
    """Seconds from the first negotiation of a tensor to the end of what is recorded of any."""
    spans = [s for o in timeline.operations if o.kind not in WITHOUT_TENSOR for s in o.spans]
    ends = [span.end for span in spans if span.end is not None]
    return max(ends, default=0.0) - min((span.begin for span in spans), default=0.0)


def compare(folder: Path) -> Comparison:
    """Launch each case once over links of each of `RATES`; timelines are kept in `folder`.

    They are named by `timeline_name`. Raises UserError as `bench` does.
    """
    return Comparison(
        {
            (rate, case): quickest_step(case, rate, folder / timeline_name(case, rate))
            for rate in RATES
            for case in CASES
        }
    )


def timeline_name(case: Case, rate: str) -> str:
    """The name of the file for a case and rate, such as fusion_off_1gbit.json."""
    return f"{case.name}_{rate}.json".replace(" ", "_")


def measure(case: Case, rate: str) -> Measured:
    """One launch of `STEPS` steps over links of `rate`, less what a launch of one step sends."""
    with tempfile.TemporaryDirectory(prefix="hpml-fusion-") as folder:
        file = Path(folder) / "timeline.json"
        settings = dict(case.settings) | {"HOROVOD_TIMELINE": str(file)}
        evidence = _launched(case, rate, settings, STEPS)
        timeline = read(file)
    counted = [len(collectives(timeline.round(step))) for step in range(1, STEPS)]
    first = _launched(case, rate, settings, 1)
    sent = _sent(evidence) - _sent(first)
    by_step = list(zip(*evidence.values, strict=True))[1:]
    return Measured(
        seconds=statistics.median(max(ranks)[0] for ranks in by_step),
        collectives=statistics.mean(counted),
        sent_bytes=sent / (STEPS - 1),
        calls=statistics.median(max(ranks)[1] for ranks in by_step),
    )


def _launched(case: Case, rate: str, settings: dict[str, str], steps: int) -> Evidence:
    inputs = {"tensors": case.tensors, "length": case.length, "steps": steps}
    evidence = launch(
        _steps,
        WORLD_SIZE,
        inputs=[inputs] * WORLD_SIZE,
        flavour="horovod",
        environment=lambda rank: settings,
        link=rate,
        timeout=120.0,
    )
    check_launch(evidence, "bench fusion")
    return evidence


def _steps(inputs: dict[str, int]) -> list[tuple[float, float]]:
    """On a rank, of each step, from the barrier until all tensors are averaged: seconds, and
    processor seconds of this thread's calls without waiting. Horovod's thread does the rest."""
    import statistics
    import time

    import horovod.torch as hvd
    import torch

    tensors = [torch.ones(inputs["length"]) for _ in range(inputs["tensors"])]
    taken = []
    for _ in range(inputs["steps"]):
        hvd.barrier()
        began, own = time.perf_counter(), time.thread_time()
        handles = [
            hvd.allreduce_async_(tensor, name=f"gradient {number}")
            for number, tensor in enumerate(tensors)
        ]
        own = time.thread_time() - own
        collecting = []
        for handle in handles:
            called = time.thread_time()
            hvd.synchronize(handle)
            collecting.append(time.thread_time() - called)
        seconds = time.perf_counter() - began
        # Most calls find their tensor done; the few that wait look for it again and again.
        taken.append((seconds, own + len(handles) * statistics.median(collecting)))
    hvd.barrier()
    hvd.shutdown()  # the timeline is written to its end
    return taken


def _is_whole(step: Timeline, case: Case) -> bool:
    return sum(len(one.operations) for one in collectives(step)) == case.tensors


def _messages(count: float) -> str:
    return f"{count:g} message{'' if count == 1 else 's'}"


def _sent(evidence: Evidence) -> float:
    return statistics.mean(rank.traffic.sent_bytes for rank in evidence.ranks)


def _rows(rate: str, taken: dict[tuple[str, Case], list[Measured]]) -> list[Row]:
    link = format_rate(parse_rate(rate))
    rows = []
    for what, unit, of in (
        ("a step", "ms", lambda one: 1e3 * one.seconds),
        ("collectives", "", lambda one: one.collectives),
        ("sent", "MB", lambda one: one.sent_bytes / 1e6),
    ):
        base = f"{link}, {SMALL_OFF.name}: {what}"
        for case in CASES:
            name = f"{link}, {case.name}: {what}"
            values = [of(one) for one in taken[rate, case]]
            rows.append(Row(name, values, unit, base=None if name == base else base))
    return rows
