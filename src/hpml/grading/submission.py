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
    """

    person: str
    files: tuple[Path, ...] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)  # by exercise id
    notes: tuple[str, ...] = ()
    refused: str = ""
    name: str = ""
    email: str = ""

    @property
    def digest(self) -> str:
        """A digest of all that is graded: equal digests get the same verdicts."""
        known = sha256(self.refused.encode("utf-8", "replace"))
        for exercise, answer in sorted(self.answers.items()):
            known.update(f"\0{exercise}\0{answer.source}".encode("utf-8", "surrogatepass"))
        return known.hexdigest()
