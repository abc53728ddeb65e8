"""A slow script put right, one fix at a time, in the order that its profile gives.

Profile, take the largest part that still has a fix, fix it, profile again. Where a part has
several, what can be counted goes first (threads), and the others are tried, the best one first.
"""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

from hpml.modules.m03_profiling.lecture.fixed_picture import Stage
from hpml.modules.m03_profiling.lecture.slow_training import BATCH, COMPUTE, FIXES, train
from hpml.trace.profiler.read import read
from hpml.trace.profiler.shares import PARTS, Shares, shares
from hpml.trace.profiler.trace import Trace

TIMED, WARM_UP, ACTIVE = 3, 1, 2  # steps, after a first one with one-off costs
HARM = 0.97  # of the images/s before: slower than that, and a fix is taken back
CLEAR = 1.1  # times as fast: more than two measurements of the same differ
COUNTED = ("threads",)  # too many is a count: no clock is needed to know that it is wrong
JOINED = {"forward": COMPUTE, "backward": COMPUTE}


@dataclass(frozen=True)
class Version:
    """The script with some fixes: where its step goes, and images/s while no profiler records."""

    fixes: tuple[str, ...]
    shares: Shares
    images_per_second: float
    item: float  # seconds of a step in `.item()`
    loss: float  # of the last batch
    trace: Path

    @property
    def milliseconds(self) -> float:
        """Of one image."""
        return 1e3 / self.images_per_second

    def share(self, part: str) -> float:
        """How much of the step a part of FIXES takes, from 0 to 1."""
        names = [name for name in PARTS if JOINED.get(name, name) == part]
        return sum(self.shares.fraction(name) for name in names)


@dataclass(frozen=True)
class Round:
    """One fix: the version in which `part` was largest, and the one with its fix.

    `tried` has the images/s of every fix of the part that was tried, where there were several.
    """

    fix: str
    before: Version
    after: Version
    tried: dict[str, float]

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
    def gain(self) -> float:
        """How many times as many images/s."""
        return self.after.images_per_second / self.before.images_per_second

    @property
    def kept(self) -> bool:
        return self.fix in COUNTED or self.gain >= HARM

    @property
    def clear(self) -> bool:
        """More images/s than two measurements of the same differ by."""
        return self.gain > CLEAR


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
    def gain(self) -> float:
        return self.last.images_per_second / self.first.images_per_second

    @property
    def stages(self) -> list[Stage]:
        """For `fixed_picture.picture`: the slow version, and one for each fix that was kept."""
        kept = [one.after for one in self.rounds if one.kept]
        named = [("slow script", self.first), *((f"+ {one.fixes[-1]}", one) for one in kept)]
        return [Stage(name, one.shares, one.milliseconds) for name, one in named]

    @property
    def best(self) -> Round:
        return max(self.rounds, key=lambda one: one.gain)

    @property
    def item_share(self) -> float:
        """Of a step, how much is `.item()` in the fastest version that still has it: the most."""
        version = self.round("no_item").before
        return version.item / version.shares.step

    def round(self, fix: str) -> Round:
        """The round in which this fix was made."""
        return next(one for one in self.rounds if one.fix == fix)

    def __str__(self) -> str:
        columns = f"{'part':<21}{'its share':>12}{'images/s':>16}{'gain':>8}  fix"
        losses = [version.loss for version in (self.first, *(one.after for one in self.rounds))]
        agree = f"loss of the last batch, over all versions: {min(losses):.3f} to {max(losses):.3f}"
        return "\n".join([columns, *map(_row, self.rounds), agree])


def profiled(photos: Path, fixes: Sequence[str], logs: Path) -> Version:
    """Train with these fixes: TIMED steps with a clock, then ACTIVE ones under the profiler.

    The trace goes to `logs`, as TensorBoard reads it. What the script prints goes nowhere.
    """
    worker = f"{len(fixes)}_{fixes[-1] if fixes else 'slow'}"
    with (
        Path(os.devnull).open("w") as nowhere,
        profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=1 + TIMED, warmup=WARM_UP, active=ACTIVE, repeat=1),
            on_trace_ready=tensorboard_trace_handler(str(logs), worker, use_gzip=True),
        ) as profiler,
    ):
        steps = 1 + TIMED + WARM_UP + ACTIVE
        done = train(photos, fixes, steps, profiler.step, _printer(nowhere))
    path = max(Path(logs).glob(f"{worker}.*.pt.trace.json.gz"))
    trace = read(path)
    rate = BATCH / min(done.seconds[1 : 1 + TIMED])
    return Version(tuple(fixes), shares(trace), rate, item_seconds(trace), done.losses[-1], path)


def put_right(
    photos: Path, logs: Path, first: Version | None = None, without: Collection[str] = ()
) -> PutRight:
    """Fix the script until no fix is left, leaving out those in `without`; `first` is its
    profile, if it has been made."""
    here = first or profiled(photos, (), logs)
    left, rounds = [name for name in FIXES if name not in without], []
    while left:
        fix, tried = choose(here, left, lambda fixes: _rate(photos, fixes))
        made = Round(fix, here, profiled(photos, (*here.fixes, fix), logs), tried)
        if made.gain < HARM:  # or was it another program? Both are timed once more
            before, after = (_timed_again(photos, version) for version in (here, made.after))
            made = replace(made, before=before, after=after)
        rounds.append(made)
        left.remove(fix)
        here = made.after if made.kept else made.before
    return PutRight(tuple(rounds))


def choose(
    here: Version, left: Collection[str], rate: Callable[[Collection[str]], float]
) -> tuple[str, dict[str, float]]:
    """The fix that is next, of those `left`, and the images/s of those that were tried for it.

    `rate` gives the images/s of a version with these fixes.
    """
    part = max({FIXES[name].part: None for name in left}, key=here.share)
    fixes = [name for name in left if FIXES[name].part == part]
    if len(fixes) == 1 or fixes[0] in COUNTED:
        return fixes[0], {}
    tried = {name: rate((*here.fixes, name)) for name in fixes}
    return max(tried, key=tried.get), tried


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
    return f"{kept} fixes: {done.gain:.0f} times as many images/s"


def _rate(photos: Path, fixes: Collection[str]) -> float:
    """Images/s of the quickest step."""
    with Path(os.devnull).open("w") as nowhere:
        return BATCH / min(train(photos, fixes, 1 + TIMED, report=_printer(nowhere)).seconds[1:])


def _timed_again(photos: Path, version: Version) -> Version:
    """With the images/s of its quickest step, of those seen before and now."""
    rate = _rate(photos, version.fixes)
    return replace(version, images_per_second=max(version.images_per_second, rate))


def _printer(file: object) -> Callable[[str], None]:
    return lambda line: print(line, file=file, flush=True)


def _row(one: Round) -> str:
    share = f"{one.share:.0%} to {one.left:.0%}"
    rates = (version.images_per_second for version in (one.before, one.after))
    rate = " to ".join(f"{value:,.0f}" for value in rates)
    gain = f"{one.gain:.2f} ×"
    remedy = FIXES[one.fix].remedy + ("" if one.kept else " (taken back)")
    return f"{one.part:<21}{share:>12}{rate:>16}{gain:>8}  {one.fix}: {remedy}"
