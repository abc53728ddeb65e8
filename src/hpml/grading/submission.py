"""What one person handed in, once it has been found and read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from hpml.answer import Answer


@dataclass(frozen=True)
class Submission:
    """One person's answers, from however many notebooks.

    `person` is a safe file name, unique in its batch. `name` and `email` come from a platform's
    export, for the tables; empty if it has none. `notes` are sentences about what was unusual, for
    the instructor and the person. `refused` is a sentence if nothing could be read, else empty.
    `unread` and `uncounted` have a sentence for each exercise whose answer may be in a file that
    could not be read, or was found and does not count.
    """

    person: str
    files: tuple[Path, ...] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)  # by exercise id
    notes: tuple[str, ...] = ()
    refused: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)  # by exercise id
    uncounted: Mapping[str, str] = field(default_factory=dict)  # by exercise id
    name: str = ""
    email: str = ""

    @property
    def digest(self) -> str:
        """A digest of all that is graded: equal digests get the same verdicts."""
        known = sha256(self.refused.encode("utf-8", "replace"))
        sources = {exercise: answer.source for exercise, answer in self.answers.items()}
        for texts in (sources, self.unread, self.uncounted):
            for exercise, text in sorted(texts.items()):
                known.update(f"\0{exercise}\0{text}".encode("utf-8", "surrogatepass"))
            known.update(b"\0\0")
        return known.hexdigest()
