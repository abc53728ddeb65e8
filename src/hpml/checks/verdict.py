"""The outcome of a check: claims with points, or "not gradable" for a fault that is ours."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

# The reason for a verdict. "claims": the ranks returned, and each claim was judged by itself.
# "unwritten": there is no answer yet, only the stub or nothing. "missing name": it does not define
# what the exercise asks for. "not allowed": it imports or uses what the exercise's rules refuse.
# "ours": a fault that is not the answer's. The others are `hpml.ranks.evidence.Diagnosis.kind`: the
# launch ended so, and no claim was judged.
Status = Literal["passed", "failed", "not gradable"]
Cause = Literal[
    "claims",
    "unwritten",
    "missing name",
    "not allowed",
    "hang",
    "mismatch",
    "raised",
    "exited",
    "memory",
    "killed",
    "limit",
    "flood",
    "refused",
    "ours",
]


MAX_SENTENCE = 2000  # characters: a name in it may be as long as an answer likes


def shortened(sentence: str) -> str:
    return sentence if len(sentence) <= MAX_SENTENCE else f"{sentence[:MAX_SENTENCE]} …"


@dataclass(frozen=True)
class ClaimResult:
    """One claim, judged. `message` and `hint` are empty where it holds."""

    name: str
    passed: bool
    points: int  # that the claim is worth
    message: str = ""  # what was seen
    hint: str = ""  # the text for the learner
    hint_key: str = ""  # which of the check's hints it is
    # The smallest world size at which it did not hold; None where the check has but one rank
    world_size: int | None = None
    judged: bool = True  # False: this machine cannot judge it; `message` is the reason
    expected: str = ""  # what should have been seen; for the learner's own check alone

    def __post_init__(self) -> None:
        for name in ("message", "expected"):
            object.__setattr__(self, name, shortened(getattr(self, name)))

    @property
    def earned(self) -> int:
        return self.points if self.passed else 0

    @property
    def full_message(self) -> str:
        """What was seen and what was expected: for the learner's own check, and for authors."""
        return f"{self.message}, expected {self.expected}" if self.expected else self.message


@dataclass(frozen=True)
class Verdict:
    """The verdict on one answer. "not gradable" is our fault and never 0 points.

    Also "not gradable": every claim that could be judged holds, but some could not be judged.
    """

    exercise: str
    title: str
    status: Status
    claims: tuple[ClaimResult, ...]
    headline: str  # one sentence: why, leading with the cause
    seed: int
    stacks: dict[str, str] = field(default_factory=dict)  # "rank 1 of 4" -> text, shown on request
    cause: Cause = "claims"
    # What follows is of one launch or play: one that failed, else of a run in which a claim did,
    # else of the last. It is for the learner's own eyes, and what the answer did or has in it.
    shown_at: int | None = None  # its world size
    case: str = ""  # "one rank without samples": where in the drive a launch failed
    printed: str = ""  # see `hpml.checks.printed`
    lines: tuple[tuple[int, str], ...] = ()  # of the answer, that messages name, by number
    calls: str = field(default="", compare=False)  # a row per rank, where a claim failed
    timeline: str = field(default="", compare=False)  # the same over time, an SVG for a notebook

    def __post_init__(self) -> None:
        object.__setattr__(self, "headline", shortened(self.headline))

    @property
    def points(self) -> int:
        return sum(claim.points for claim in self.claims)

    @property
    def earned(self) -> int:
        return sum(claim.earned for claim in self.claims)

    @property
    def passed(self) -> bool:
        return self.status == "passed"

    @property
    def nothing_failed(self) -> bool:
        """Whether at least one claim could be judged, and all such claims hold."""
        judged = [claim for claim in self.claims if claim.judged]
        return bool(judged) and all(claim.passed for claim in judged)

    def record(self) -> dict[str, Any]:
        """The verdict as JSON-ready plain data, without the drawing."""
        record = {**asdict(self), "points": self.points, "earned": self.earned}
        del record["timeline"]
        return record

    def lasting_record(self) -> dict[str, Any]:
        """`record` without what differs each time that the same answer is judged."""
        each_time = ("seed", "shown_at", "case", "printed", "lines", "calls")
        return {name: value for name, value in self.record().items() if name not in each_time}
