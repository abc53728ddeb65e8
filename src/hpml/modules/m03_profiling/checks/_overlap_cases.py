"""Jobs whose communication hides behind work, in part: played afresh from each seed."""

import random
from dataclasses import dataclass
from functools import cache

from hpml.modules.m03_profiling.checks._data_parallel import Training, Work, program
from hpml.modules.m03_profiling.checks._planted_ranks import PlantedRank, play
from hpml.modules.m03_profiling.checks._recorded_ranks import job


@dataclass(frozen=True)
class Case:
    """The traces of one job, and what really happened in it."""

    name: str  # for messages
    ranks: tuple[PlantedRank, ...]
    recorded: bool = False

    @property
    def tolerance(self) -> float:
        """How far off a figure may be, as a share of its step's communication.

        Where ranks were recorded, one ends a collective up to some milliseconds before another.
        """
        return 0.05 if self.recorded else 0.01


@cache
def cases(seed: int) -> tuple[Case, ...]:
    """Small ones first; each later one has what the earlier ones have not."""
    draw = random.Random(seed)

    def played(
        ranks: int,
        steps: int,
        threads: int = 1,
        first: int = 0,
        library: str = "gloo",
        **more: object,
    ) -> tuple[PlantedRank, ...]:
        buckets = tuple(draw.randint(4500, 7000) for _ in range(4))
        work = _work(draw, ranks, steps)
        first = first or draw.randint(3, 20)
        plan = Training(work, buckets, first, lead=0.25, **more)  # type: ignore[arg-type]
        return tuple(play(seed, ranks, program(seed, plan), threads=threads, library=library))

    return (
        Case("one rank", played(1, 1, buffers=4000)),
        # Steps 8, 9 and 10: the order of their numbers is not that of their names
        Case("two ranks, one bucket at a time", played(2, 3, first=8)),
        Case("three ranks, two buckets at a time", played(3, 3, 2, gaps=True)),
        Case("buckets sent after backward", played(2, 3, overlaps=False, buffers=4000)),
        Case(
            "ops on two threads, with NCCL",
            played(3, 3, 2, library="nccl", beside=True, before=True),
        ),
        Case("an all-reduce that goes on into the next step", played(4, 3, 2, averages=9000)),
        Case("a recorded job", tuple(job("backward", seed)[0]), recorded=True),
    )


def _work(draw: random.Random, ranks: int, steps: int) -> dict[tuple[int, int], Work]:
    """Similar on all ranks but for one in each step, which is late: each in turn."""
    usual = {
        "loading": draw.randint(2000, 4000),
        "transforms": draw.randint(1000, 2000),
        "forward": draw.randint(5000, 7000),
        "backward": draw.randint(12_000, 15_000),
        "optimizer": draw.randint(1000, 2000),
    }
    turn = draw.randrange(ranks)
    late = [(turn + step) % ranks if ranks > 1 else None for step in range(steps)]
    return {
        (rank, step): {
            phase: round(us * draw.uniform(0.95, 1.05) * (2.0 if rank == late[step] else 1.0))
            for phase, us in usual.items()
        }
        for rank in range(ranks)
        for step in range(steps)
    }
