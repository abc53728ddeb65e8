"""What one person handed in, once it has been found and read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from hpml.answer import Answer


@dataclass(frozen=True)
class Submission:
    """One person's answers, from however many notebooks.

    `person` is a name that is safe as a file's and unique in its batch. `name` and `email` are what
    a platform's export says of the person, for the tables; empty where it says nothing. `notes` are
    sentences on what was odd, for the instructor and the person. With `refused`, a sentence, there
    was nothing that could be read.
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
        """Of all that is graded: two submissions with one digest get the same verdicts."""
        known = sha256(self.refused.encode("utf-8", "replace"))
        for exercise, answer in sorted(self.answers.items()):
            known.update(f"\0{exercise}\0{answer.source}".encode("utf-8", "surrogatepass"))
        return known.hexdigest()
