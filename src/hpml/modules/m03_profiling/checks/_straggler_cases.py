"""Jobs in which one rank is late through its own work, or none: played afresh from each seed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hpml.modules.m03_profiling.checks import _recorded_ranks
from hpml.modules.m03_profiling.checks._data_parallel import Training, Work, program
from hpml.modules.m03_profiling.checks._planted_ranks import PHASES, Event, PlantedRank, play

COMPUTE = ("transforms", "forward", "backward", "optimizer")
LATE = 0.10  # own work this much longer than on each other rank is late
SLOWER = 1.2  # a phase in which the straggler takes this many times as long is one of its phases
STEPS_IN_A_ROW = 3
# Phases, and how many times as long they take for a rank with some 19 % more work in all than most
# of the others, and 14 % more than the one whose backward takes BETWEEN
SCARCELY = {"transforms": 1.17, "forward": 1.17, "backward": 1.29}
BETWEEN = 1.1
LITTLE = 0.005  # noise that decides nothing: a usual one is 3 %


@dataclass(frozen=True)
class Case:
    """The traces of one job, and who is to be named."""

    name: str  # for messages
    ranks: tuple[PlantedRank, ...]
    straggler: int | None = None
    since: int = 0  # number of the step
    phases: tuple[str, ...] = ()  # in which it loses the time
    why_nobody: str = ""  # the hint for an answer that names a rank where nobody is to blame
    if_nobody: str = "own"  # the hint for an answer that names nobody, though a rank is to blame
    recorded: bool = False


@dataclass(frozen=True)
class _Late:
    """A rank that takes longer in some phases, from place `begin` of the steps to before `end`.

    `share` is how much more work, as a share of a step's; with `times` each phase takes that many
    times as long instead.
    """

    rank: int
    begin: int
    end: int
    phases: Sequence[str]
    share: float = 0.0
    times: float = 0.0


@cache
def cases(seed: int) -> tuple[Case, ...]:
    """One of each kind."""
    draw = random.Random(seed)

    def job(
        name: str,
        ranks: int,
        phases: Sequence[str],
        more: float,
        if_nobody: str = "own",
        **options: Any,
    ) -> Case:
        steps = draw.randint(8, 10)
        since = draw.randint(4, steps - 3)
        since = {"from the beginning": 0, "late": steps - 3}.get(
            str(options.pop("when", "")), since
        )
        rank = options.pop("rank", None)
        rank = draw.randrange(ranks) if rank is None else rank
        late = [_Late(rank, since, steps, phases, more)]
        if since >= 4 and options.pop("hiccups", True):
            late.append(_Late(rank, since - 2, since - 1, phases, more))
            late.append(_Late((rank + 1) % ranks, 1, 2, ("loading",), 9.0))
        made = _played(draw, ranks, steps, late, **options)
        first = min(made[0].steps)
        chosen = tuple(phase for phase in PHASES if phase in phases)
        return Case(name, made, rank, first + since, chosen, if_nobody=if_nobody)

    def scarcely() -> Case:
        """10 to 20 % more work; of two longer phases, one is over 1.2 times as long."""
        rank = draw.randrange(4)
        late = [_Late(rank, 3, 8, (phase,), times=times) for phase, times in SCARCELY.items()]
        # Another rank is between: over 1.2 times the others' mean is not over 1.2 times each
        late.append(_Late((rank + 1) % 4, 3, 8, ("backward",), times=BETWEEN))
        made = _played(draw, 4, 8, late, noise=LITTLE)
        since = min(made[0].steps) + 3
        return Case("scarcely late, 4 ranks", made, rank, since, ("backward",), if_nobody="rank")

    def nobody(name: str, ranks: int, why: str, **options: Any) -> Case:
        steps = draw.randint(8, 10)
        late = []
        if why == "hiccup":
            late = [
                _Late(place % ranks, place, place + 1, (draw.choice(COMPUTE[:3]),), 0.8)
                for place in draw.sample(range(1, steps - 3), 3)
            ]
            late.append(_Late(draw.randrange(ranks), steps - 2, steps, ("loading",), 0.8))
        if why == "noise":
            late = [_Late(draw.randrange(ranks), 2, steps, ("backward",), 0.07)]
            options["noise"] = LITTLE
        if why == "pair":
            # The same one has most work in each step
            late = [
                _Late(rank, steps - 5, steps, ("backward",), share)
                for rank, share in zip(draw.sample(range(ranks), 2), (0.3, 0.36), strict=True)
            ]
            options["noise"] = LITTLE
        made = _played(draw, ranks, steps, late, **options)
        return Case(name, made, why_nobody=why)

    return (
        _first(seed),
        # The late rank is slow in ops of c10d, in which the others wait
        job(
            "backward with hooks that wait, 4 ranks",
            4,
            ("backward",),
            0.4,
            if_nobody="computes",
            rank=draw.randint(1, 3),
            hooks=True,
        ),
        job(
            "a slower processor, 3 ranks",
            3,
            COMPUTE,
            0.5,
            if_nobody="zero",
            when="from the beginning",
            rank=0,
            first=95,  # steps 99 and 100: the order of numbers is not that of names
        ),
        # An all-reduce goes on meanwhile, and no operator shows the work on the main thread
        job(
            "transforms on a second thread, 4 ranks with a slow link",
            4,
            ("transforms",),
            0.4,
            if_nobody="threads",
            slow_link=True,
            when="late",
            pool=True,
            averages=40_000,
        ),
        # So few steps, and so little more, that neither the mean over all steps nor one with the
        # rank's own shows the phases
        job(
            "2 ranks with NCCL",
            2,
            ("forward", "backward"),
            0.25,
            if_nobody="names",
            when="late",
            hiccups=False,
            noise=LITTLE,
            library="nccl",
        ),
        job(
            "three micro-batches in a step, 6 ranks",
            6,
            ("forward",),
            0.4,
            if_nobody="micro_batches",
            micro_batches=3,
        ),
        # The others wait for the late one in a broadcast, within their forward
        job(
            "buffers sent in forward, 3 ranks",
            3,
            ("loading",),
            0.4,
            if_nobody="names",
            sync=800,
        ),
        scarcely(),
        nobody("4 ranks nearly alike", 4, "noise"),
        nobody("a slow link, 3 alike ranks", 3, "link", slow_link=True),
        nobody("now this rank, now that, of 5", 5, "hiccup"),
        nobody("two of 6 ranks alike late", 6, "pair"),
        _recorded("loading", seed),
        _recorded("backward", seed),
        _recorded("nobody", seed),
    )


def _first(seed: int) -> Case:
    """Loading on 4 ranks: the usual mistakes each name another rank."""
    for attempt in range(1000):
        draw = random.Random(f"{seed} {attempt}")
        rank, steps = draw.randint(1, 2), draw.randint(8, 10)
        since = draw.randint(3, steps - 3)
        late = [_Late(rank, since, steps, ("loading",), draw.uniform(0.25, 0.3))]
        ranks = _played(draw, 4, steps, late)
        named = {rank, longest_wait(ranks), latest_clock(ranks), len(ranks) - 1}
        if len(named) == 4:
            break
    return Case("loading on 4 ranks", ranks, rank, min(ranks[0].steps) + since, ("loading",))


def longest_wait(ranks: Sequence[PlantedRank]) -> int:
    """The rank whose collectives take longest, in total."""
    total = [sum(one.end - one.begin for one in made.collectives) for made in ranks]
    return total.index(max(total))


def latest_clock(ranks: Sequence[PlantedRank]) -> int:
    """The rank that ends last, if each clock is taken as it is."""
    ends = [max(end for _, end in made.steps.values()) + made.offset for made in ranks]
    return ends.index(max(ends))


def _played(
    draw: random.Random,
    ranks: int,
    steps: int,
    late: Sequence[_Late],
    *,
    slow_link: bool = False,
    first: int = 0,
    noise: float = 0.03,
    library: str = "gloo",
    **options: Any,
) -> tuple[PlantedRank, ...]:
    """The ranks of a job; `options` are of its `Training`."""
    buckets = tuple((5 if slow_link else 1) * draw.randint(2000, 3000) for _ in range(3))
    work, more = _work(draw, ranks, steps, late, noise)
    plan = Training(
        work,
        buckets,
        first or draw.randint(11, 40),  # no step's number is its place
        layers=4,
        more=more,
        buffers=800,
        **options,
    )
    seed, threads = draw.getrandbits(30), draw.randint(1, 2)
    made = tuple(play(seed, ranks, program(seed, plan), threads=threads, library=library))
    for one in made if plan.micro_batches > 1 else ():
        _in_time(one.events, "forward")
    return made


def _in_time(events: list[Event], name: str) -> None:
    """Put the events of this name in the order of their time, at the places that they have.

    What is longer in the micro-batch in the middle is then in no step's first mark, nor its last.
    """
    places = [place for place, event in enumerate(events) if event["name"] == name]
    ordered = sorted((events[place] for place in places), key=lambda event: event["ts"])
    for place, event in zip(places, ordered, strict=True):
        events[place] = event


def _work(
    draw: random.Random, ranks: int, steps: int, late: Sequence[_Late], noise: float
) -> tuple[Mapping[tuple[int, int], Work], Mapping[tuple[int, int], Work]]:
    """Work by rank and step, and how much more of it a late rank has.

    It is alike on all ranks but for `noise` and for those that are late. The first step has a slow
    forward.
    """
    usual = {
        "loading": draw.randint(1500, 2200),
        "transforms": draw.randint(2000, 3000),
        "forward": draw.randint(6000, 8000),
        "backward": draw.randint(12_000, 15_000),
        "optimizer": draw.randint(1500, 2500),
    }
    total = sum(usual.values())
    work, more = {}, {}
    for rank in range(ranks):
        for step in range(steps):
            mine = {
                phase: round(
                    us
                    * draw.uniform(1 - noise, 1 + noise)
                    * (2.5 if not step and "fo" in phase else 1)
                )
                for phase, us in usual.items()
            }
            longer = dict.fromkeys(usual, 0)
            for one in late:
                if one.rank == rank and one.begin <= step < one.end:
                    factor = one.share * total / sum(usual[phase] for phase in one.phases)
                    factor = one.times - 1 if one.times else factor
                    for phase in one.phases:
                        longer[phase] += round((mine[phase] + longer[phase]) * factor)
            work[rank, step] = {phase: us + longer[phase] for phase, us in mine.items()}
            more[rank, step] = longer
    return work, more


def _recorded(name: str, seed: int) -> Case:
    ranks, order = _recorded_ranks.job(name, seed)
    phase, since = _recorded_ranks.JOBS[name]
    shown = {"nobody": "3 recorded ranks alike"}.get(name, f"3 recorded ranks, {name}")
    if not phase:
        return Case(shown, tuple(ranks), why_nobody="noise", recorded=True)
    rank = order.index(_recorded_ranks.LATE)
    return Case(shown, tuple(ranks), rank, since, (phase,), recorded=True)
