"""A learner's next hint, in words: the same ladder in the terminal and in a notebook."""

import textwrap

from hpml.checks import hint_texts
from hpml.course import progress

WIDTH = 96  # of a verdict, see hpml.checks.render


def following(exercise: str, again: str) -> str:
    """The next hint of an exercise, which counts as read; `again` is what one types for another.

    UserError for an unknown exercise.
    """
    known = texts(exercise)
    found = progress.next_hint(exercise, known)
    if found is None:
        return (
            "That was the last one. Check your answer again: what then fails has its own hints.\n"
            f"From the first hint on: {again}"
        )
    key, left = found
    text = "\n".join(textwrap.wrap(known[key], WIDTH))
    return f"{text}\n\n{left} more: {again}" if left else text


def texts(exercise: str) -> dict[str, str]:
    """All hints that an exercise may have, by their keys."""
    return {
        **hint_texts.general(),
        **hint_texts.of(exercise),
        **hint_texts.steps(exercise),
    }
