"""What a person handed in at different times, as one record: by exercise, the newest counts.

A record's digest is that of the newest hand-in. A result of an earlier one has the digest of that
one, from which its inputs follow. `Record.earlier` has the digests of all earlier ones, so that
none of them is taken for new where it is given again.
"""

from collections.abc import Sequence
from dataclasses import replace

from hpml.course.schedule import Course
from hpml.grading import course_answers
from hpml.grading.record import Record, Result
from hpml.grading.submission import Submission


def answered(submission: Submission, course: Course) -> set[str]:
    """The exercises with an answer that is not the stub as it was handed out."""
    answers = submission.answers.items()
    return {exercise for exercise, a in answers if not course_answers.is_stub(a, course)}


def kept(record: Record, submission: Submission, course: Course) -> Record:
    """The record with those results that stay when `submission` is given. All others are to be
    judged of it: what is new in it, and what could not be graded of it before."""
    known = submission.digest in (record.digest, *record.earlier)
    there = answered(submission, course) | set(submission.uncounted)

    def stays(result: Result) -> bool:
        if (result.digest or record.digest) == submission.digest:
            return result.status != "not gradable"
        if result.status == "refused":
            return known  # the file was asked for again, and this is it
        if result.status == "missing":
            return result.exercise not in there | set(submission.unread)
        return known or result.exercise not in there

    return replace(record, results=tuple(filter(stays, record.results)))


def together(before: Record, new: Record, exercises: Sequence[str]) -> Record:
    """The record of the `new` results and of those that were `kept` from `before`."""
    older = new.digest in before.earlier
    digest = before.digest if older else new.digest
    both = ((each, of) for of in (before, new) for each in of.results)
    results = {
        each.exercise: replace(
            each, digest=own if (own := each.digest or of.digest) != digest else ""
        )
        for each, of in both
    }
    refused = new.refused if before.refused else ""
    notes = [*before.notes, *new.notes, *([new.refused] if new.refused != refused else [])]
    if any(each.digest for each in results.values()):
        notes.append("handed in more than once: of each exercise the newest answer counts")
    return replace(
        before if older else new,
        digest=digest,
        earlier=tuple(dict.fromkeys(d for d in (*before.earlier, before.digest) if d != digest)),
        results=tuple(results[exercise] for exercise in exercises),
        name=new.name or before.name,
        email=new.email or before.email,
        files=tuple(dict.fromkeys((*before.files, *new.files))),
        notes=tuple(dict.fromkeys(notes)),
        refused=refused,
        layers=new.layers or before.layers,
        seconds=round(before.seconds + new.seconds, 3),
    )
