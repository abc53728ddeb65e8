"""A slow script put right, one fix at a time, in the order that its profile gives.

Profile, take the largest part that still has a fix, fix it, profile again. Where a part has
several, what can be counted goes first (threads), and the others are tried, the best one first.
At the end all versions are timed again, a step of each in turn: what else the machine does is then
in all of them, and a gain is the ratio of two medians, with its spread over the turns.
"""

import os
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

from hpml.measure.gain import Gain, Seconds, times
from hpml.modules.m03_profiling.lecture.fixed_picture import Stage
from hpml.modules.m03_profiling.lecture.slow_training import BATCH, COMPUTE, FIXES, train
from hpml.trace.profiler.read import read
from hpml.trace.profiler.shares import PARTS, Shares, shares
from hpml.trace.profiler.trace import Trace

WARM_UP, ACTIVE = 1, 2  # steps of a profile, after a first one with one-off costs
TURNS = 5  # in which all versions are timed
HARM = 0.97  # times as fast as before: slower than that, and a fix is taken back
COUNTED = ("threads",)  # too many is a count: no clock is needed to know that it is wrong
JOINED = {"forward": COMPUTE, "backward": COMPUTE}


@dataclass(frozen=True)
class Clock:
    """The wall clock around each of several steps of one run, while no profiler records."""

    seconds: Seconds

    @property
    def images_per_second(self) -> float:
        """Of the median step."""
        return BATCH / statistics.median(self.seconds)

    def __str__(self) -> str:
        rates = [BATCH / seconds for seconds in self.seconds]
        return (
            f"{statistics.median(self.seconds):.2f} s for {BATCH} images: "
            f"{self.images_per_second:.0f} images/s "
            f"({len(rates)} steps: {min(rates):.0f} to {max(rates):.0f})"
        )


UNTIMED = Gain((), ())


@dataclass(frozen=True)
class Version:
    """The script with some fixes, and where its step goes."""

    fixes: tuple[str, ...]
    shares: Shares
    item: float  # seconds of a step in `.item()`
    loss: float  # of the last batch
    trace: Path
    clock: Clock | None = None  # of the steps before those that the profiler recorded

    def share(self, part: str) -> float:
        """How much of the step a part of FIXES takes, from 0 to 1."""
        names = [name for name in PARTS if JOINED.get(name, name) == part]
        return sum(self.shares.fraction(name) for name in names)


@dataclass(frozen=True)
class Round:
    """One fix: the version in which `part` was largest, and the one with its fix.

    `gain` is empty until all versions are timed.
    """

    fix: str
    before: Version
    after: Version
    kept: bool = True
    gain: Gain = UNTIMED

    @property
    def part(self) -> str:
        return FIXES[self.fix].part

    @property
    def share(self) -> float:
        """How much of the step the part takes before, from 0 to 1."""
        return self.before.share(self.part)

    @property
    def left(self) -> float:
        """And after."""
        return self.after.share(self.part)

    @property
    def bound(self) -> float:
        """How many times as fast, at the most, if the part became free: Amdahl's law."""
        return 1 / max(1 - self.share, 1e-9)

    @property
    def recording(self) -> float:
        """How many times as long a step takes while the profiler records it.

        Operators pay for that, and Python code does not: its share is larger without a profiler.
        """
        return self.before.shares.step / statistics.median(self.gain.before)

    @property
    def within_bound(self) -> bool:
        """Whether the gain is within its bound, in its smallest turn and without recording."""
        share = self.share * max(1.0, self.recording)
        return share >= 1 or self.gain.least <= 1 / (1 - share)

    @property
    def outcome(self) -> str:
        """What the fix did: "is 1.30 (1.20 to 1.42) times as fast"."""
        if not self.kept:
            return f"is only {self.gain} times as fast, and was taken back"
        unclear = "" if self.gain.clear else ": no clear difference"
        return f"is {self.gain} times as fast{unclear}"


@dataclass(frozen=True)
class PutRight:
    """The rounds in their order; `str()` is a table."""

    rounds: tuple[Round, ...]

    @property
    def first(self) -> Version:
        return self.rounds[0].before

    @property
    def last(self) -> Version:
        """With every fix that was kept."""
        final = self.rounds[-1]
        return final.after if final.kept else final.before

    @property
    def gain(self) -> Gain:
        """Of all fixes together."""
        final = self.rounds[-1].gain
        return Gain(
            self.rounds[0].gain.before, final.after if self.rounds[-1].kept else final.before
        )

    @property
    def stages(self) -> list[Stage]:
        """For `fixed_picture.picture`: the slow version, and one for each fix that was kept."""
        slow = self.rounds[0].gain.before
        stages = [Stage("slow script", self.first.shares, 1.0)]
        for one in self.rounds:
            if one.kept:
                gain = Gain(slow, one.gain.after)
                stages.append(Stage(f"+ {one.fix}", one.after.shares, 1 / gain.factor))
        return stages

    @property
    def best(self) -> Round:
        return max(self.rounds, key=lambda one: one.gain.factor)

    @property
    def tightest(self) -> Round:
        """The round whose gain is nearest to its bound, or farthest above it."""
        return max(self.rounds, key=lambda one: one.gain.factor / one.bound)

    @property
    def item_share(self) -> float:
        """Of a step, how much is `.item()` in the fastest version that still has it: the most."""
        version = self.round("no_item").before
        return version.item / version.shares.step

    def round(self, fix: str) -> Round:
        """The round in which this fix was made."""
        return next(one for one in self.rounds if one.fix == fix)

    def __str__(self) -> str:
        columns = f"{'part':<21}{'its share':>12}{'times as fast (in each turn)':>30}  fix"
        losses = [version.loss for version in (self.first, *(one.after for one in self.rounds))]
        agree = f"loss of the last batch, over all versions: {min(losses):.3f} to {max(losses):.3f}"
        return "\n".join([columns, *map(_row, self.rounds), agree])


def profiled(photos: Path, fixes: Sequence[str], logs: Path, timed: int = 0) -> Version:
    """Train with these fixes: `timed` steps with a clock, then ACTIVE ones under the profiler.

    The trace goes to `logs`, as TensorBoard reads it. What the script prints goes nowhere.
    """
    worker = f"{len(fixes)}_{fixes[-1] if fixes else 'slow'}"
    with (
        Path(os.devnull).open("w") as nowhere,
        profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=1 + timed, warmup=WARM_UP, active=ACTIVE, repeat=1),
            on_trace_ready=tensorboard_trace_handler(str(logs), worker, use_gzip=True),
        ) as profiler,
    ):
        steps = 1 + timed + WARM_UP + ACTIVE
        done = train(photos, fixes, steps, profiler.step, _printer(nowhere))
    path = max(Path(logs).glob(f"{worker}.*.pt.trace.json.gz"))
    trace = read(path)
    clock = Clock(done.seconds[1 : 1 + timed]) if timed else None
    found = shares(trace), item_seconds(trace), done.losses[-1]
    return Version(tuple(fixes), *found, path, clock)


def put_right(
    photos: Path, logs: Path, first: Version | None = None, without: Collection[str] = ()
) -> PutRight:
    """Fix the script until no fix is left, leaving out those in `without`; `first` is its
    profile, if it has been made."""
    here = first or profiled(photos, (), logs)
    left, rounds = [name for name in FIXES if name not in without], []
    while left:
        fix = choose(here, left, lambda versions: in_turn(photos, versions, 2))
        made = Round(fix, here, profiled(photos, (*here.fixes, fix), logs))
        if fix not in COUNTED and made.after.shares.step > here.shares.step / HARM:
            # Slower in its profile. Or was it another program? The clock decides.
            gain = Gain(*in_turn(photos, [here.fixes, made.after.fixes], 3))
            made = replace(made, kept=gain.factor >= HARM)
        rounds.append(made)
        left.remove(fix)
        here = made.after if made.kept else made.before
    versions = [rounds[0].before, *(one.after for one in rounds)]
    timed = in_turn(photos, [version.fixes for version in versions], TURNS)
    seconds = {version.fixes: taken for version, taken in zip(versions, timed, strict=True)}
    gains = [Gain(seconds[one.before.fixes], seconds[one.after.fixes]) for one in rounds]
    return PutRight(tuple(replace(o, gain=g) for o, g in zip(rounds, gains, strict=True)))


def in_turn(photos: Path, versions: Sequence[Collection[str]], turns: int) -> list[Seconds]:
    """Seconds of a step with each version's fixes, one for each of `turns` rounds over all."""
    taken: list[list[float]] = [[] for _ in versions]
    with Path(os.devnull).open("w") as nowhere:
        for _ in range(turns):
            for fixes, seconds in zip(versions, taken, strict=True):
                # A first step has one-off costs
                seconds.append(train(photos, fixes, 2, report=_printer(nowhere)).seconds[1])
    return [tuple(seconds) for seconds in taken]


def choose(
    here: Version,
    left: Collection[str],
    timed: Callable[[Sequence[Collection[str]]], Sequence[Seconds]],
) -> str:
    """The fix that is next, of those `left`. Where its part has several, they are `timed`."""
    part = max({FIXES[name].part: None for name in left}, key=here.share)
    fixes = [name for name in left if FIXES[name].part == part]
    if len(fixes) == 1 or fixes[0] in COUNTED:
        return fixes[0]
    seconds = timed([(*here.fixes, name) for name in fixes])
    return min(zip(map(statistics.median, seconds), fixes, strict=True))[1]


def item_seconds(trace: Trace) -> float:
    """Seconds of the mean step in `.item()`, which waits for the device and copies the number."""
    if "aten::item" not in trace.names:
        return 0.0
    found = trace.name == trace.names.index("aten::item")
    return float(trace.duration[found].sum()) / len(trace.steps)


def title(version: Version) -> str:
    """The title of a picture of a version's shares."""
    part = version.shares.largest
    return f"{version.shares.fraction(part):.0%} of the step is {part}"


def gained(done: PutRight) -> str:
    """The title of a picture of all rounds."""
    kept = sum(one.kept for one in done.rounds)
    return f"{kept} fixes: {times(done.gain.factor)} times as fast"


def _printer(file: object) -> Callable[[str], None]:
    return lambda line: print(line, file=file, flush=True)


def _row(one: Round) -> str:
    share = f"{one.share:.0%} to {one.left:.0%}"
    remedy = FIXES[one.fix].remedy + ("" if one.kept else " (taken back)")
    return f"{one.part:<21}{share:>12}{one.gain!s:>30}  {one.fix}: {remedy}"
