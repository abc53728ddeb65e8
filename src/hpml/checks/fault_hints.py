"""Which hint a failed launch has earned: by its diagnosis, and by the exception that was raised.

A check's own hint for "raised" or "hang" has the usual cause of that exercise in mind. Where the
ledger or the exception shows another cause, that one has the word.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from hpml.ranks.evidence import MEETING, Evidence

# Where an answer raised one of these; a hint "raised" of a check's own has other causes in mind.
_OF_EXCEPTION = {
    "NameError": "other cell",
    "UnboundLocalError": "no value yet",
    "SyntaxError": "syntax",
    "IndentationError": "syntax",
    "TabError": "syntax",
    "NoSuchRank": "no such rank",
}
# What PyTorch's and NumPy's exceptions say where dtypes do not go together
_TWO_DTYPES = re.compile(
    r"dtype|scalar type|can't be cast|cannot be cast|same type|but (?:got|found) "
    r"(?:Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)\b"
)


def hint_key(
    evidence: Evidence, hints: Mapping[str, str] = MappingProxyType({}), most_ranks: int = 2
) -> str:
    """The key of the hint for a launch with a diagnosis, of a check with these `hints` that is
    played with at most `most_ranks`."""
    diagnosis = evidence.diagnosis
    assert diagnosis is not None
    raised = next((rank.raised for rank in evidence.ranks if rank.raised), None)
    if diagnosis.kind == "raised" and raised is not None and _some_never_joined(evidence):
        return "hang"
    if diagnosis.kind == "raised" and raised is not None and raised.line:
        if raised.kind in _OF_EXCEPTION:
            return _OF_EXCEPTION[raised.kind]
        if _TWO_DTYPES.search(raised.message) and "dtype" not in hints.get("raised", ""):
            return "two dtypes"
    if diagnosis.cause == "one rank" and most_ranks == 1:
        return diagnosis.kind  # that check's hint has one rank in mind
    if diagnosis.cause == "aborted" and "killed" in hints:
        return diagnosis.kind
    return diagnosis.cause or diagnosis.kind


def _some_never_joined(evidence: Evidence) -> bool:
    """Whether ranks raised that have no group, where others wait for them to make it."""
    waits = any(
        call.operation in MEETING and call.finished is None
        for rank in evidence.ranks
        for call in rank.calls[-1:]
    )
    raised = [rank.raised.message for rank in evidence.ranks if rank.raised]
    return waits and all("process group has not been initialized" in text for text in raised)
