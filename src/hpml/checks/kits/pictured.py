"""What a picture of an answer is drawn from: one more launch, of which nothing is judged."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpml.answer import as_python
from hpml.checks.contract import Check
from hpml.ranks import Evidence, launch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIMIT = 30.0  # seconds; a busy machine takes some for what takes one


def at_work(
    check: Check, source: str, drive: Callable[..., Any], inputs: Sequence[Any], **options: Any
) -> Evidence:
    """The answer called by `drive(answer, inputs[rank])` on as many ranks as there are inputs.

    `options` are those of `hpml.ranks.launch`. Raises ValueError, the diagnosis, where a rank did
    not return: what it would have done is not known.
    """
    evidence = launch(
        drive,
        len(inputs),
        answer=as_python(source),
        answer_name=check.id,
        rules=check.rules,
        inputs=inputs,
        timeout=LIMIT,
        **options,
    )
    if evidence.diagnosis is not None:
        raise ValueError(evidence.diagnosis.sentence)
    return evidence


def png(figure: "Figure") -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, facecolor="white")
    return image.getvalue()
