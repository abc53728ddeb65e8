"""From one submission to its record: judge each answer in a sandbox, and find whose a fault is.

A fault before the answer began is ours, and there is another attempt. What happens afterwards may
be the answer's doing, and there is none. If its sandbox ended, the fault is the answer's. If it
cannot be judged, for example as a judge raised on an unexpected value, the control decides: the
course's own solution is judged in the same way, in a new sandbox. If that can be judged, the fault
is the answer's; if not, nobody loses points. So it is for each single claim that cannot be judged,
which is first played once more: a machine may be busy for a moment.

So it is where the time was up for an answer: launches have fixed limits, and on a busy machine an
answer that is right may reach them. The control then has a part of that time. The answer is not
judged again: it could come there by sleeping whenever luck was against it.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from hpml.answer import Answer
from hpml.checks import find
from hpml.checks.contract import Check
from hpml.checks.plays import ReferenceFailed
from hpml.checks.run_check import Examined, examine
from hpml.checks.verdict import Cause, ClaimResult, Verdict, outcome
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.grading import course_answers, secret
from hpml.grading.record import Picture, Record, Result, Status
from hpml.grading.sandbox import Limits, Sandbox, sandbox
from hpml.grading.submission import Submission
from hpml.ranks.flavour import Flavour, missing, order
from hpml.ranks.parent import warm
from hpml.trace.launch_svg import launch_svg

ATTEMPTS = 2  # at an answer that has not begun when something fails
TIME_UP: tuple[Cause, ...] = ("limit", "flood")  # a busy machine may have a part in it
TIMES_THE_SOLUTION = 2  # as long as the course's own solution takes, every answer has at least

# (exercise id, or its check with other limits; source; seed) -> Examined
Examine = Callable[[str | Check, str, int], Examined]


def examine_fully(exercise: str | Check, source: str, seed: int) -> Examined:
    """Judge at all of the check's world sizes, the largest with injected waits; with proxies."""
    return examine(exercise, source, seed=seed, delayed=True, proxied=True)


@dataclass
class Judge:
    """Judges submissions, one at a time, in one process.

    All inputs follow from `secret` (see `hpml.grading.secret`). With `unsafe`, answers run without
    a sandbox and with all rights of this user.
    """

    course: Course
    exercises: Sequence[str]
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(secret.BYTES), repr=False)
    limits: Limits = field(default_factory=Limits)
    unsafe: bool = False
    core: bool = False  # the exercises are those of the core path, and records say so
    examine: Examine = examine_fully
    _controls: dict[str, bool] = field(default_factory=dict, init=False)
    _doubts: dict[str, set[str]] = field(default_factory=dict, init=False)  # of the solution

    def record(self, submission: Submission) -> Record:
        """The record of a submission. Raises UserError if no sandbox can be made."""
        began = time.monotonic()
        results = {}
        with _Boxes(self.limits, self.unsafe) as boxes:
            # In order of flavour: exercises that need the same imports share a sandbox.
            for exercise in sorted(self.exercises, key=lambda one: order(find(one).needs)):
                results[exercise] = self._result(exercise, submission, boxes)
            active = boxes.layers
        results = [results[exercise] for exercise in self.exercises]
        return _record(self, submission, results, active, time.monotonic() - began)

    def judged(self, answer: Answer, seed: int) -> tuple[Result, Verdict]:
        """One answer's result, and the verdict that it was made from, with what was expected.

        Raises UserError if no sandbox can be made.
        """
        with _Boxes(self.limits, self.unsafe) as boxes:
            return self._judged(answer, seed, boxes)

    def _result(self, exercise: str, submission: Submission, boxes: "_Boxes") -> Result:
        answer = submission.answers.get(exercise)
        if answer is None or course_answers.is_stub(answer, self.course):
            return _unanswered(self.course, exercise, submission)
        seed = secret.seed(self.secret, submission.person, exercise, submission.digest)
        return self._judged(answer, seed, boxes)[0]

    def _judged(self, answer: Answer, seed: int, boxes: "_Boxes") -> tuple[Result, Verdict]:
        exercise = answer.exercise
        began = time.monotonic()
        attempts, examined, exceeded = 0, None, ""
        while examined is None or (
            examined.error
            and not exceeded
            and not _may_be_its_doing(examined)
            and attempts < ATTEMPTS
        ):
            attempts += 1
            with boxes.one(find(exercise).needs) as box:
                examined = self.examine(exercise, answer.source, seed)
                if box is not None:
                    box.look_at_memory()  # the answer may have ended before the watch measured
                    exceeded = box.exceeded
            if examined.error is not None or exceeded:
                boxes.renew()
        verdict = examined.verdict
        if exceeded:
            verdict = _charged_to_the_answer(verdict, f"the answer was ended: {exceeded}", "killed")
        elif examined.error is not None and (
            _ended_its_sandbox(examined) or self._control(exercise, seed, boxes)
        ):
            verdict = _charged_to_the_answer(verdict, *_what_it_did(examined.error))
        elif verdict.cause in TIME_UP and not self._in_time(exercise, seed, boxes):
            verdict = _charged_to_the_machine(verdict)
        elif examined.error is None and _doubtful(verdict):
            verdict = self._decided(answer, verdict, seed, boxes)
        evidence = examined.evidence
        result = Result(
            exercise=exercise,
            title=verdict.title,
            module=self.course.module_of(exercise).id,
            status=_status(verdict),
            points=verdict.points,
            earned=verdict.earned,
            headline=verdict.headline,
            claims=verdict.claims,
            answer=answer.source,
            where=answer.where,
            printed=verdict.printed,
            pictures=_pictures(examined),
            attempts=attempts,
            seconds=round(time.monotonic() - began, 3),
            cause=verdict.cause,
            world_size=evidence.world_size if evidence else None,
        )
        return result, verdict

    def _control(self, exercise: str, seed: int, boxes: "_Boxes") -> bool:
        """Whether the course's own solution can be judged."""
        if not self._controls.get(exercise):
            examined = self._examine_solution(exercise, seed, boxes)
            self._controls[exercise] = not examined.error
        return self._controls[exercise]

    def _decided(self, answer: Answer, verdict: Verdict, seed: int, boxes: "_Boxes") -> Verdict:
        """The verdict without claims that are in doubt by the answer's doing.

        One that can be judged of the course's own solution is played again, and fails where it is
        in doubt for a second time. All other claims stay as they are.
        """
        exercise, doubtful = answer.exercise, _doubtful(verdict)
        if not doubtful <= self._doubts.get(exercise, set()):  # what this machine lacks, it lacks
            control = self._examine_solution(exercise, seed, boxes).verdict
            self._doubts[exercise] = _doubtful(control)
        doubtful -= self._doubts[exercise]
        if not doubtful:
            return verdict
        with boxes.one(find(exercise).needs):
            second = self.examine(exercise, answer.source, seed).verdict
        boxes.renew()
        again = {claim.name: claim for claim in second.claims}
        return _with_claims(
            verdict,
            [
                _settled(again.get(claim.name, claim)) if claim.name in doubtful else claim
                for claim in verdict.claims
            ],
        )

    def _in_time(self, exercise: str, seed: int, boxes: "_Boxes") -> bool:
        """Whether the course's own solution is judged now in a part of the time limits."""
        check = find(exercise)
        hurried = replace(check, timeout=check.timeout / TIMES_THE_SOLUTION)
        examined = self._examine_solution(hurried, seed, boxes)
        return not examined.error and examined.verdict.cause not in TIME_UP

    def _examine_solution(self, of: str | Check, seed: int, boxes: "_Boxes") -> Examined:
        check = of if isinstance(of, Check) else find(of)
        boxes.renew()  # what an answer left running takes no time from it
        with boxes.one(check.needs):
            examined = self.examine(of, course_answers.solution(check.id, self.course), seed)
        boxes.renew()  # no answer runs where the solution did
        return examined


def could_not(judge: Judge, submission: Submission, why: str) -> Record:
    """The record when the grader itself failed: "not gradable", and no zeros."""
    results = tuple(
        _no_verdict(judge.course, exercise, "not gradable", why, cause="ours")
        for exercise in judge.exercises
    )
    return _record(judge, submission, results, layers=(), seconds=0.0)


def never_given(course: Course, exercise: str, record: Record) -> Result:
    """The result of an exercise that nobody had answered when the record was made."""
    if record.refused:
        return _no_verdict(course, exercise, "refused", record.refused)
    return _no_verdict(course, exercise, "missing", "no answer was handed in")


def _record(
    judge: Judge,
    submission: Submission,
    results: Sequence[Result],
    layers: tuple[str, ...],
    seconds: float,
) -> Record:
    return Record(
        person=submission.person,
        digest=submission.digest,
        layers=layers,
        unsafe=judge.unsafe,
        results=tuple(results),
        name=submission.name,
        email=submission.email,
        files=tuple(path.name for path in submission.files),
        notes=submission.notes,
        refused=submission.refused,
        graded_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(seconds, 3),
        core=judge.core,
    )


class _Boxes:
    """The sandboxes of one submission, one at a time.

    A new one replaces it when it has ended, or when another flavour of ranks is needed.
    """

    def __init__(self, limits: Limits, unsafe: bool) -> None:
        self._limits, self._unsafe = limits, unsafe
        self._stack = contextlib.ExitStack()
        self._box: Sandbox | None = None
        self.layers: tuple[str, ...] = ()

    def __enter__(self) -> "_Boxes":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def one(self, flavour: Flavour = "torch") -> Iterator[Sandbox | None]:
        """A live sandbox for launches of `flavour`, all for one answer; None with `unsafe`."""
        if self._unsafe:
            yield None
            return
        if missing(flavour):
            flavour = "torch"  # the launch will report what is missing
        box = self._box
        if box is None or not box.begin_answer() or order(box.server.flavour) < order(flavour):
            self.renew()
            box = self._box = self._stack.enter_context(sandbox(self._limits, flavour))
            self.layers = box.layers
        with warm.using(box.server):
            yield box

    def renew(self) -> None:
        """End the current sandbox, so that the next one is new."""
        self._stack.close()
        self._box = None


def _status(verdict: Verdict) -> Status:
    """As the verdict's; but what this machine cannot judge costs nothing, whatever else fails."""
    in_doubt = verdict.cause == "claims" and _doubtful(verdict)
    return "not gradable" if in_doubt else verdict.status


def _doubtful(verdict: Verdict) -> set[str]:
    """The claims that could not be judged."""
    return {claim.name for claim in verdict.claims if not claim.judged}


def _settled(claim: ClaimResult) -> ClaimResult:
    """A claim that was played twice: in doubt, it fails."""
    if claim.state == "not reached":  # what it waits for may have held in the first play
        return replace(claim, reached=True, message="another claim failed when it was played again")
    if claim.judged:
        return claim
    message = f"{claim.message}; of the course's own solution this could be judged"
    return replace(claim, passed=False, judged=True, message=message)


def _with_claims(verdict: Verdict, claims: Sequence[ClaimResult]) -> Verdict:
    """The verdict with other claims, of the status that follows from them."""
    status, headline = outcome(claims)
    return replace(verdict, claims=tuple(claims), status=status, headline=headline)


def _charged_to_the_answer(verdict: Verdict, headline: str, cause: Cause) -> Verdict:
    """The verdict on an answer that cannot be judged by its own fault: 0 points."""
    message = f"not judged: {headline}"
    claims = tuple(
        replace(claim, passed=False, judged=True, reached=False, message=message, expected="")
        for claim in verdict.claims
    )
    return replace(verdict, status="failed", claims=claims, headline=headline, cause=cause)


def _charged_to_the_machine(verdict: Verdict) -> Verdict:
    """The verdict on an answer that the machine gave too little time: not gradable."""
    headline = (
        f"{verdict.exercise} could not be graded: this machine is too busy, the course's own "
        f"solution was too slow as well: {verdict.headline}"
    )
    claims = tuple(
        replace(claim, passed=False, judged=False, reached=True, hint="", hint_key="", expected="")
        for claim in verdict.claims
    )
    return replace(verdict, status="not gradable", claims=claims, headline=headline, cause="ours")


def _may_be_its_doing(examined: Examined) -> bool:
    """Whether the answer had begun to run, and may have caused the error."""
    if isinstance(examined.error, warm.ServerDied):
        return examined.error.began or examined.evidence is not None  # of an earlier play
    # A launch without the answer, and files and memory of this process, are out of its reach.
    return not isinstance(examined.error, ReferenceFailed | OSError | MemoryError | UserError)


def _ended_its_sandbox(examined: Examined) -> bool:
    return isinstance(examined.error, warm.ServerDied) and _may_be_its_doing(examined)


def _what_it_did(error: Exception) -> tuple[str, Cause]:
    if isinstance(error, warm.ServerDied):
        return "the answer ended the processes that ran it", "killed"
    return (
        "what the answer returned does not have the form that is asked for "
        f"({type(error).__name__}); the course's own solution was judged in the same way",
        "refused",
    )


def _unanswered(course: Course, exercise: str, submission: Submission) -> Result:
    """The result where there is no answer to judge, or only the stub."""
    if exercise in submission.uncounted:
        return _no_verdict(course, exercise, "not counted", submission.uncounted[exercise])
    if exercise in submission.unread:
        return _no_verdict(course, exercise, "refused", submission.unread[exercise])
    stub = submission.answers.get(exercise)
    why = "the answer is the one that was handed out" if stub else "no answer was handed in"
    where = stub.where if stub else ""
    return replace(_no_verdict(course, exercise, "missing", why), where=where)


def _no_verdict(
    course: Course, exercise: str, status: Status, why: str, cause: Cause = "unwritten"
) -> Result:
    check = find(exercise)
    return Result(
        exercise=exercise,
        title=check.title,
        module=course.module_of(exercise).id,
        status=status,
        points=check.points,
        earned=0,
        headline=why,
        attempts=0,
        cause=cause,
    )


def _pictures(examined: Examined) -> tuple[Picture, ...]:
    if examined.evidence is None or not any(rank.calls for rank in examined.evidence.ranks):
        return ()
    ranks = examined.evidence.world_size
    title = f"What {ranks} ranks did" if ranks > 1 else "What the one rank did"
    try:
        return (Picture(title, launch_svg(examined.evidence, title)),)
    except Exception:  # of calls that nobody can have made: the verdict stands without a picture
        return ()
