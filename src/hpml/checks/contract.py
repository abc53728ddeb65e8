"""What a check is: the one description of an exercise that serves notebook, terminal and grader.

A check file (`checks/m06_torch_distributed/ddp.py`, say) defines `CHECK = Check(...)`.

- `inputs(seed, world_size)` makes fresh inputs: a list with one item per rank. Only plain values,
  numpy arrays and tensors.
- `drive(answer, inputs)` runs on each rank, with the answer as a module and that rank's item of the
  inputs. What it returns (None, bool, int, float, str, bytes, lists, tuples, dicts with str keys,
  tensors, numpy arrays) becomes `evidence.ranks[r].value`. It is sent to the ranks by value, with
  the globals it uses, so that `hpml.checks` is never imported where an answer runs.
- `expect(inputs, world_size)` is single-process mathematics, in the parent.
- each claim's `judge(run)` compares, in the parent, and returns None or a Problem, or CannotJudge
  where this machine lacks what it takes (see `hpml.checks.budget`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hpml.ranks.evidence import Evidence
from hpml.ranks.flavour import Flavour, order


@dataclass(frozen=True)
class Problem:
    """Why a claim does not hold: what was seen, what was expected, and which hint helps.

    The inputs of a grading are the same for a whole class, so what an answer should have computed
    from them stands in `expected` alone: a learner's own check shows "MESSAGE, expected EXPECTED",
    and nothing that is handed back after grading shows more than `message`. What the exercise's
    text states (a dtype, a length, a bound) may stand in either.
    """

    message: str  # a sentence with figures, and without the value that was expected
    hint: str  # a key of Check.hints
    expected: str = ""  # "3.5", "shape (4,)": it follows the word "expected"


@dataclass(frozen=True)
class CannotJudge:
    """Why a claim can neither be held nor denied on this machine."""

    why: str


@dataclass(frozen=True)
class Run:
    """One play of an answer at one world size: what went in, what should and what did come out.

    `evidence` is that of the last stage, `stages` has all of them by name. `delayed` tells that the
    ranks were made to wait now and then before their collectives.
    """

    world_size: int
    seed: int
    inputs: Any
    expected: Any
    evidence: Evidence
    stages: Mapping[str, Evidence]
    delayed: bool = False

    @property
    def values(self) -> Sequence[Any]:
        """What the last stage's drive returned, by rank."""
        return self.evidence.values


@dataclass(frozen=True)
class Claim:
    """One thing an answer must fulfil, at every world size, for its points.

    A claim that cannot be judged at one world size is not judged at all, unless it fails at
    another.
    """

    name: str  # reads as a sentence: "every rank starts from rank 0's weights"
    points: int
    judge: Callable[[Run], Problem | CannotJudge | None]


@dataclass(frozen=True)
class Stage:
    """One launch of a play. All stages of a play run in the same scratch folder, in order.

    `world` maps the play's world size to this launch's (to resume on another number of ranks).
    Where `dies` is true, ranks that do not return are part of the play, and no fault: other claims
    are still judged, and those that need this stage look at `fault`. With a `link` the ranks are on
    a network of that rate, if the machine can emulate one, and their traffic is counted. `flavour`
    is what its ranks talk with, the check's own where it is None.
    """

    name: str
    drive: Callable[[ModuleType, Any], Any]
    world: Callable[[int], int] = lambda world_size: world_size
    dies: bool = False
    link: str | None = None
    flavour: Flavour | None = None


def fault(evidence: Evidence) -> Problem | None:
    """The diagnosis of a stage that `dies`, as the Problem of the claims that need it; or None."""
    diagnosis = evidence.diagnosis
    return None if diagnosis is None else Problem(diagnosis.sentence, diagnosis.kind)


@dataclass(frozen=True)
class Check:
    """An exercise's check. With several `stages`, `inputs` returns a dict of lists by stage name.

    `hints` has a text for every key that a judge names, and "start", what `./hpml hint` says first.
    The keys "hang", "mismatch", "raised", "exited", "killed", "limit" are used when a launch ends
    with such a diagnosis; where one is absent, a general text stands in.
    `environment` gives each rank's extra environment variables, (inputs, rank, world_size) -> dict.
    """

    id: str
    title: str
    claims: tuple[Claim, ...]
    hints: Mapping[str, str]
    inputs: Callable[[int, int], Any]
    expect: Callable[[Any, int], Any]
    drive: Callable[[ModuleType, Any], Any] | None = None
    stages: tuple[Stage, ...] = ()
    worlds: tuple[int, ...] = (1, 2, 3, 4)
    flavour: Flavour = "torch"  # as `hpml.ranks.launch` has it; a stage may have another
    process_group: bool = True  # the engine makes the default group before the drive runs
    timeout: float = 20.0  # seconds, per launch
    names: tuple[str, ...] = ()  # what the answer must define, checked before anything runs
    environment: Callable[[Any, int, int], Mapping[str, str]] | None = None
    link: str | None = None  # as a Stage's, where there are no stages
    # World sizes at which a judge looks at seconds: nothing else is under way meanwhile
    timed_at: tuple[int, ...] = ()
    submits: bool = False  # a judge hands what the answer returns to the SLURM here, to be run

    @property
    def points(self) -> int:
        return sum(claim.points for claim in self.claims)

    @property
    def needs(self) -> Flavour:
        """The flavour whose warm server can serve all of its launches."""
        return max([self.flavour, *(s.flavour for s in self.stages if s.flavour)], key=order)
