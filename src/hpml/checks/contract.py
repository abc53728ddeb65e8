"""What a check is: one description of an exercise for notebook, terminal and grader.

A check file (`modules/m06_torch_distributed/checks/ddp.py`, say) defines `CHECK = Check(...)`.

- `inputs(seed, world_size)` makes new inputs: a list with one item per rank. Only plain values,
  numpy arrays and tensors. Each play has another seed (see `hpml.checks.seeds`), and a seed that an
  answer or a drive draws from is `derived` from it: from `seed` itself all expected values follow.
- `drive(answer, inputs)` runs on each rank, with the answer as a module and that rank's item of the
  inputs. What it returns (None, bool, int, float, str, bytes, lists, tuples, dicts with str keys,
  tensors, numpy arrays) becomes `evidence.ranks[r].value`. It is sent to the ranks by value, with
  the globals it uses, so that `hpml.checks` is never imported where an answer runs. A drive that
  calls the answer on several cases names each before it, `hpml.ranks.mark("7 elements")`: if a
  launch fails, its verdict has the last name.
- `expect(inputs, world_size)` is single-process mathematics, in the parent.
- `to_write`, `allowed` and `not_allowed` are the exercise's rules. Its text has them as one line,
  `Check.rules_as_text`; a rank refuses what they do not allow.
- each claim's `judge(run)` compares, in the parent, and returns None or a Problem, or CannotJudge
  if this machine cannot measure it (see `hpml.checks.budget`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from hpml.answer.rules import ReadyMade, Rules, importable, listed
from hpml.checks.fault_hints import hint_key
from hpml.ranks.evidence import Evidence
from hpml.ranks.flavour import Flavour, order
from hpml.ranks.killing import Kill
from hpml.ranks.parent.serving import Server

# What answers may import besides Python's standard library, by what their ranks work with.
# The exercise notebooks say so. Nothing of this package: it has reference code of the exercises.
LIBRARIES: Mapping[Flavour, tuple[str, ...]] = {
    "torch": ("numpy", "torch", "tqdm"),
    "horovod": ("numpy", "torch", "tqdm", "horovod"),
    "tensorflow": ("numpy", "torch", "tqdm", "tensorflow", "keras"),
    "horovod-tensorflow": ("numpy", "torch", "tqdm", "horovod", "tensorflow", "keras", "tf_keras"),
}

# A stage's inputs -> what each rank is sent of them, and the server of the rest. A launch's own.
Serve = Callable[[Sequence[Any]], tuple[Sequence[Any], Server]]


@dataclass(frozen=True)
class Picture:
    """What an answer did, as a PNG image and in words: the same ones each time, so without what
    was measured; that is in the image."""

    png: bytes
    words: str


@dataclass(frozen=True)
class Problem:
    """Why a claim does not hold: what was seen, what was expected, and which hint helps.

    The values that an answer should compute from its inputs belong in `expected` only: a learner's
    own check shows "MESSAGE, expected EXPECTED", while pages handed back after grading show
    `message` alone. There each submission has inputs of its own, which are drawn again only when it
    changes: its pages are not to say what it should have found. What the exercise's text states (a
    dtype, a length, a bound) may be in either.
    """

    message: str  # a sentence with figures, and without the value that was expected
    hint: str  # a key of Check.hints
    expected: str = ""  # "3.5", "shape (4,)": it follows the word "expected"


@dataclass(frozen=True)
class CannotJudge:
    """Why a claim can be neither confirmed nor refuted on this machine."""

    why: str


@dataclass(frozen=True)
class Run:
    """One play of an answer at one world size: inputs, expected values and evidence.

    `evidence` is that of the last stage, `stages` has all of them by name. `delayed`: waits were
    injected before some of the ranks' collectives. `seed` is what `inputs` were made from.
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
    """One statement that must hold at every world size for its points.

    A claim that cannot be judged at one world size counts as not judged, unless it fails at
    another. One that is `of_calls`, about who sends what to whom, holds only where the recorded
    calls and the kernel's count of bytes agree (see `hpml.checks.reconcile`).
    """

    name: str  # reads as a sentence: "every rank starts from rank 0's weights"
    points: int
    judge: Callable[[Run], Problem | CannotJudge | None]
    of_calls: bool = False


@dataclass(frozen=True)
class Stage:
    """One launch of a play. The stages of a play run in order.

    `world` maps the play's world size to this launch's (to resume on another number of ranks).
    With `dies`, ranks that do not return are expected and no fault: other claims are still judged,
    and claims that need this stage call `fault`. With a `link` the ranks are on a network of that
    rate, if the machine can emulate one, and their traffic is counted. `flavour` is the ranks'
    communication library; None: the check's own.

    Without `with_answer` the ranks run `drive(inputs)` alone, with nothing of the answer: for what
    an answer is compared with, a time for example, which the answer then cannot change. Such a
    stage is left out of plays with injected waits. Where `world` returns 0, or `when` False of the
    play's inputs and the evidence of the stages before it by name, any stage is.

    With `serve` a drive asks this process, by `hpml.ranks.ask`, for what its claims are about: the
    samples it takes, say. Requests are then in `evidence.ranks[r].asked`, with times, and nothing
    there is the rank's own word. What is served is not among the inputs that a rank is sent.

    With `looks` the files in the ranks' folders are looked at, from outside, at each request and at
    the end: `evidence.ranks[r].asked[n].files` and `evidence.files`, by path; and at each request
    what the kernel counts of the rank: `evidence.ranks[r].asked[n].counts`. With `opens`, names of
    files in a shared folder, it counts how often these are opened.

    With `kill`, a function of the play's seed, a rank is killed while it writes a file.

    With `memory` the peak of each rank's memory is `evidence.ranks[r].peak_bytes`, from just before
    the answer and the drive on, as the kernel counts it (see `launch(count_memory=True)`). Ranks
    then have proxies, in which Gloo's buffers are and do not count.
    """

    name: str
    drive: Callable[..., Any]  # (answer, inputs)
    world: Callable[[int], int] = lambda world_size: world_size
    when: Callable[[Any, Mapping[str, Evidence]], bool] = lambda inputs, found: True
    with_answer: bool = True
    dies: bool = False
    link: str | None = None
    flavour: Flavour | None = None
    serve: Serve | None = None
    looks: bool = False
    opens: tuple[str, ...] = ()
    kill: Callable[[int], Kill] | None = None
    memory: bool = False


def imports_as_text(checks: Sequence["Check"]) -> str:
    """What answers to these exercises may import, as a sentence of their notebook."""
    text = f"An answer may import {importable(LIBRARIES['torch'])}"
    for flavour, libraries in LIBRARIES.items():
        ids = [check.id for check in checks if check.needs == flavour != "torch"]
        more = [name for name in libraries if name not in LIBRARIES["torch"]]
        if ids:
            text += f"; in {listed(ids)} also {listed(more)}"
    return f"{text}. Nothing else, and nothing of `hpml`."


def fault(evidence: Evidence) -> Problem | None:
    """The diagnosis of a stage that `dies`, as a Problem for claims that need it; or None."""
    diagnosis = evidence.diagnosis
    return None if diagnosis is None else Problem(diagnosis.sentence, hint_key(evidence))


@dataclass(frozen=True)
class Check:
    """An exercise's check. With several `stages`, `inputs` returns a dict of lists by stage name.

    `hints` has a text for every key that a judge names, and "start", which `./hpml hint` prints
    first. The keys "hang", "mismatch", "raised", "exited", "killed", "limit", "flood" are used when
    a launch ends with such a diagnosis; if one is absent, a general text is used.
    `environment` gives each rank's extra environment variables, (inputs, rank, world_size) -> dict.
    No rank sees a GPU: plays hide them.
    `to_write` and `allowed` are phrases of Markdown: "the sum of all ranks' tensors", "`send` and
    `recv`". `not_allowed` is what is ready-made of it in the libraries that answers may import.
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
    names: tuple[str, ...] = ()  # what the answer must define, checked before the drive runs
    to_write: str = ""
    allowed: str = ""
    not_allowed: tuple[ReadyMade, ...] = ()
    environment: Callable[[Any, int, int], Mapping[str, str]] | None = None
    link: str | None = None  # as a Stage's, where there are no stages
    serve: Serve | None = None  # likewise
    shared_folder: bool = False  # a play's ranks and stages have one; else each rank has its own
    # World sizes at which a judge measures seconds: no other play runs at the same time
    timed_at: tuple[int, ...] = ()
    # The answer is to print: what one that passes has printed, a notebook does not show again
    prints: bool = False
    submits: bool = False  # a judge submits what the answer returns to this machine's SLURM
    # The answer at work, for the learner's own check in a notebook; a grader never asks for it
    picture: Callable[["Check", str], "Picture"] | None = None
    # Lines below a pass: the answer beside a library's own, measured. As `picture`, for the learner
    beside: Callable[["Check", str], Sequence[str]] | None = None

    @property
    def points(self) -> int:
        return sum(claim.points for claim in self.claims)

    @property
    def needs(self) -> Flavour:
        """The flavour whose warm server can serve all of its launches."""
        return max([self.flavour, *(s.flavour for s in self.stages if s.flavour)], key=order)

    @property
    def rules(self) -> Rules:
        """What a rank holds the answer to."""
        return Rules(LIBRARIES[self.needs], self.allowed, self.not_allowed)

    @property
    def rules_as_text(self) -> str:
        """The line about what is to be written and what may be used, in the exercise's text."""
        refused = ", ".join(ready.shown for ready in self.not_allowed)
        not_allowed = f" **Not allowed:** {refused}." if refused else ""
        return f"**To write:** {self.to_write}.{not_allowed} **Allowed:** {self.allowed}."
