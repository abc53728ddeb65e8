"""The same verdicts again: a person's recorded answers, with the inputs that they were graded with.

For the instructor, who asks what a mark rests on: unlike a record, these verdicts show what was
expected, and where each rank stood.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpml.answer import Answer
from hpml.checks.run_check import Examined
from hpml.checks.verdict import Verdict
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.grading import record as records
from hpml.grading import sandbox, secret
from hpml.grading.batch import RECORDS
from hpml.grading.judging import Judge
from hpml.grading.record import Result
from hpml.grading.submission import Submission


@dataclass(frozen=True)
class Again:
    """One exercise: its result in the record, its result now, and the verdict now in full."""

    recorded: Result
    now: Result
    verdict: Verdict

    @property
    def same(self) -> bool:
        """Whether the same claims hold."""
        return (self.recorded.status, self._held(self.recorded)) == (
            self.now.status,
            self._held(self.now),
        )

    @staticmethod
    def _held(result: Result) -> list[bool]:
        return [claim.passed for claim in result.claims]


def again(
    out: Path, person: str, only: Sequence[str], course: Course, *, unsafe: bool = False
) -> Iterator[Again]:
    """Judge the answers in `person`'s record in `out` again; `only` names exercises and modules.

    Raises UserError if there is no such record, it has no such answer, or no sandbox can be made.
    """
    path = out / RECORDS / f"{person}.json"
    if not path.exists():
        there = ", ".join(sorted(each.stem for each in path.parent.glob("*.json"))[:10])
        raise UserError(f"{out}: no record of {person} is here: there are {there or 'none'}")
    if not unsafe and (why := sandbox.missing()):
        raise UserError(f"grading needs a sandbox: {why}")
    record, key = records.read(path), secret.read(out)
    chosen = [
        result
        for result in record.results
        if result.answer and (not only or result.exercise in only or result.module in only)
    ]
    if not chosen:
        raise UserError(f"{path}: has no answer to {', '.join(only) or 'any exercise'}")
    for result in chosen:
        yield _again(result, person, record.digest, Judge(course, (), key, unsafe=unsafe))


def _again(recorded: Result, person: str, digest: str, judge: Judge) -> Again:
    verdicts: list[Verdict] = []

    def examine(exercise: str, source: str, _: int) -> Examined:
        # The digest is that of all that was handed in, of which the record has what was graded
        seed = secret.seed(judge.secret, person, exercise, digest)
        examined = judge.examine(exercise, source, seed)
        verdicts.append(examined.verdict)
        return examined

    exercise = recorded.exercise
    answer = Answer(exercise, recorded.answer, Path(person), 1, None)
    submission = Submission(person, answers={exercise: answer})
    (now,) = replace(judge, exercises=(exercise,), examine=examine).record(submission).results
    return Again(recorded, now, verdicts[0])
