"""Which weight exercise fsdp's ranks gather when: read from the calls, by their sizes."""

import math
from dataclasses import dataclass

from hpml.checks.contract import Problem, Run
from hpml.modules.m07_hybrid_parallelism.checks._sharded_training import (
    PLACES,
    STEPS,
    USES,
    elements,
    script,
    small_elements,
)
from hpml.ranks.evidence import Call, RankEvidence

ITEM = 8  # bytes of a float64
AROUND = 1.12  # times a shard's bytes: some pad its rows


@dataclass(frozen=True)
class Step:
    """One step of a rank: when it asked for what, and its gathers of each weight, in order.

    `other` are gathers of something else. Times as in `Call`.
    """

    at: dict[str, float]
    gathers: dict[str, list[Call]]
    other: list[Call]

    def forward(self, use: int) -> Call | None:
        """The gather for a use in forward. The last use's weight is the first's once more."""
        calls = self.gathers[named(use)]
        number = 1 if use == PLACES else 0
        return calls[number] if number < len(calls) else None

    def backward(self, use: int) -> Call | None:
        """The gather for a use in backward, of a weight that is used once."""
        calls = self.gathers[named(use)]
        return calls[1] if len(calls) > 1 else None


def named(use: int) -> str:
    """The weight of a use; the tied one goes by the embedding's name."""
    return USES[0] if use == PLACES else USES[use]


def steps_of(rank: RankEvidence, world_size: int) -> list[Step]:
    asked = [one for one in rank.asked if not one.refused]
    names = script()
    if len(asked) != STEPS * len(names):
        raise ValueError(f"rank {rank.rank} asked {len(asked)} times")  # not judged
    sizes = {
        name: math.ceil(n / world_size) * ITEM for name, n in elements().items() if name != "head"
    }
    found = []
    for step in range(STEPS):
        own = asked[step * len(names) : (step + 1) * len(names)]
        at = {one.request: one.at for one in own}
        gathers: dict[str, list[Call]] = {name: [] for name in sizes}
        other = []
        for call in rank.calls:
            inside = at["batch"] <= call.issued <= at["synchronized"]
            if not (inside and call.operation.startswith("all_gather") and len(call.group) > 1):
                continue
            fits = [n for n, size in sizes.items() if size <= call.nbytes <= AROUND * size]
            (gathers[fits[0]] if fits else other).append(call)
        found.append(Step(at, gathers, other))
    return found


def each_step(run: Run) -> list[tuple[str, Step]]:
    """All steps of all ranks, each with the beginning of a sentence about it. None on one rank."""
    ranks = run.stages["one model"].ranks if run.world_size > 1 else ()
    return [
        (f"in step {number}, rank {rank.rank}", step)
        for rank in ranks
        for number, step in enumerate(steps_of(rank, run.world_size), 1)
    ]


def around_their_use(run: Run) -> Problem | None:
    small = [math.ceil(n / run.world_size) * ITEM for n in small_elements()]
    for of, step in each_step(run):
        if any(call.nbytes in small for call in step.other):
            return Problem(f"{of} gathered a parameter of less than 1024 elements", "small")
        for use in range(1, PLACES):
            times = len(step.gathers[named(use)])
            seen = f"{of} gathered {named(use)}'s weight {times} times"
            if not times and step.other:
                sizes = ", ".join(str(call.nbytes) for call in step.other[:3])
                return Problem(f"{seen}; it gathered other things, of {sizes} bytes", "one_each")
            if times != 2:
                hint = "freed" if times == 1 else "again" if times else "not_gathered"
                return Problem(seen, hint, "2, once in forward and once in backward")
        if not (2 <= (times := len(step.gathers[named(0)])) <= 4):
            return Problem(f"{of} gathered the tied weight {times} times, for two uses", "again")
        for use in range(1, PLACES):
            if use >= 3 and step.forward(use).issued < step.at[f"f{use - 3}"]:
                before = f"{named(use)}'s weight before {named(use - 3)} had computed"
                return Problem(f"{of} began to gather {before}", "early")
            ahead = step.at[f"b{use + 2}"] if use + 2 < PLACES else step.at["forward"]
            if step.backward(use).issued < ahead:
                where = f"{named(use)}'s weight for backward, three layers or more ahead"
                return Problem(f"{of} began to gather {where}", "early")
    return None


def prefetched(run: Run) -> Problem | None:
    if problem := around_their_use(run):
        return problem
    for of, step in each_step(run):
        if of.startswith("in step 1,"):
            continue  # it may be needed to learn the order
        for use in range(1, PLACES + 1):
            place = f"f{use - 1}"
            if problem := late(of, step.forward(use), use, step.at[place], "forward"):
                return problem
        for use in range(PLACES - 1, 0, -1):
            if problem := late(of, step.backward(use), use, step.at[f"b{use}"], "backward"):
                return problem
    return None


def late(of: str, call: Call | None, use: int, at: float, way: str) -> Problem | None:
    """Whether a use's gather was under way, and nobody waited for it, when the layer before it in
    this direction had computed."""
    before = USES[use - 1] if way == "forward" else USES[use + 1]
    seen = f"when {before} had computed in {way}, {USES[use]}'s weight was"
    if call is None or call.issued > at:
        return Problem(f"{of}: {seen} not yet under way", f"prefetch_{way}")
    if call.waited is not None and call.waited < at:
        return Problem(f"{of}: {seen} there, but the rank had stopped to wait for it", "waiting")
    return None
