"""The outcome of a check: claims with points, or "not gradable" for a fault that is ours."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

# The reason for a verdict. "claims": the ranks returned, and each claim was judged by itself.
# "unwritten": there is no answer yet, only the stub or nothing. "missing name": it does not define
# what the exercise asks for. "not allowed": it imports or uses what the exercise's rules refuse.
# "ours": a fault that is not the answer's. The others are `hpml.ranks.evidence.Diagnosis.kind`: the
# launch ended so, and no claim was judged.
Status = Literal["passed", "failed", "not gradable"]
# Of a claim. "not reached": not judged until something else holds, a claim above or that the answer
# runs to its end; 0 points. "not gradable": this machine cannot judge it.
State = Literal["holds", "fails", "not reached", "not gradable"]
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
    reached: bool = True  # False: not judged yet; `message` is what has to hold first

    def __post_init__(self) -> None:
        for name in ("message", "expected"):
            object.__setattr__(self, name, shortened(getattr(self, name)))

    @property
    def earned(self) -> int:
        return self.points if self.passed else 0

    @property
    def state(self) -> State:
        if self.passed:
            return "holds"
        if not self.judged:
            return "not gradable"
        return "fails" if self.reached else "not reached"

    @property
    def full_message(self) -> str:
        """What was seen and what was expected: for the learner's own check, and for authors."""
        return f"{self.message}, expected {self.expected}" if self.expected else self.message


def in_building_order(claims: Sequence[ClaimResult]) -> tuple[ClaimResult, ...]:
    """The claims, of which those that only repeat the reason of one above are not reached.

    A judge that cannot look for its own claim returns the Problem of the claim that it builds on.
    """
    found: list[ClaimResult] = []
    reasons: dict[tuple[object, ...], str] = {}  # of the claims that fail, and their names
    above = ""  # the last of these, if nothing below it holds
    for claim in claims:
        if claim.state == "fails":
            reason = (claim.message, claim.expected, claim.hint_key, claim.world_size)
            first = reasons.setdefault(reason, claim.name)
            if first != claim.name:
                which = "the claim above" if first == above else f'"{first}"'
                claim = ClaimResult(
                    claim.name,
                    False,
                    claim.points,
                    f"not judged until {which} holds",
                    reached=False,
                )
        if claim.state != "not reached":
            above = claim.name if claim.state == "fails" else ""
        found.append(claim)
    return tuple(found)


def outcome(claims: Sequence[ClaimResult]) -> tuple[Status, str]:
    """The status and the headline of a verdict with these claims."""
    number = Counter(claim.state for claim in claims)
    failed, later, unclear = number["fails"], number["not reached"], number["not gradable"]
    status: Status = "failed" if failed or later else "not gradable" if unclear else "passed"
    if status == "passed":
        return status, "every claim holds"
    headline = f"{number['holds']} of {len(claims)} claims hold"
    if later:
        headline = f"{failed} of {len(claims)} claims {'fails' if failed == 1 else 'fail'}"
        headline += f", {later} {'was' if later == 1 else 'were'} not judged"
    if unclear:
        headline += f", {unclear} cannot be judged here"
    return status, headline


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
        lasting = {name: value for name, value in self.record().items() if name not in each_time}
        for claim in lasting["claims"]:
            del claim["reached"]  # committed notebooks do not have it: all were, where none failed
        return lasting
