"""The same verdicts again: a person's recorded answers, with the inputs that they were graded with.

For the instructor, who asks what a mark rests on: unlike a record, these verdicts show what was
expected, and where each rank stood.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpml.answer import Answer
from hpml.checks.verdict import Verdict
from hpml.course.schedule import Course
from hpml.errors import UserError
from hpml.grading import batch, sandbox, secret
from hpml.grading import record as records
from hpml.grading.batch import RECORDS
from hpml.grading.judging import Judge
from hpml.grading.record import Result


@dataclass(frozen=True)
class Again:
    """One exercise: its result in the record, its result now, and the verdict now in full.

    Without an answer in the record there is no verdict, and the result is the recorded one.
    """

    recorded: Result
    now: Result
    verdict: Verdict | None

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

    Raises UserError if there is no such record or exercise, the record has no answer, or no sandbox
    can be made.
    """
    there = {path.stem: path for path in sorted((out / RECORDS).glob("*.json"))}
    if person not in there:
        people = ", ".join(list(there)[:10]) or "none"
        raise UserError(f"{out}: no record of {person} is here: there are {people}")
    if not unsafe and (why := sandbox.missing()):
        raise UserError(f"grading needs a sandbox: {why}")
    record, key = records.read(there[person]), secret.read(out)
    wanted = batch.named(only, course)
    chosen = [each for each in record.results if not only or each.exercise in wanted]
    if not chosen:
        raise UserError(f"{there[person]}: {', '.join(only)} was not graded")
    if not any(result.answer for result in chosen):
        why = "; ".join(f"{each.exercise} is {each.status}: {each.headline}" for each in chosen)
        raise UserError(f"{person}: there is no answer to judge again: {why}")
    for result in chosen:
        if result.answer:
            digest = result.digest or record.digest
            yield _again(result, person, digest, Judge(course, (), key, unsafe=unsafe))
        else:
            yield Again(result, result, None)


def _again(recorded: Result, person: str, digest: str, judge: Judge) -> Again:
    # The digest is that of a whole hand-in, of which the record has what was graded
    seed = secret.seed(judge.secret, person, recorded.exercise, digest)
    answer = Answer(recorded.exercise, recorded.answer, Path(person), 1, None)
    return Again(recorded, *judge.judged(answer, seed))
