"""What claims about the ranks' peak memory rest on: the kernel's count of it."""

from hpml.checks.contract import CannotJudge, Problem
from hpml.ranks.evidence import Evidence


def peaks(evidence: Evidence) -> list[int] | Problem | CannotJudge:
    """The peak bytes of each rank, by rank: `RankEvidence.peak_bytes` of a stage with `memory`.

    CannotJudge where this system does not count them. A Problem, with the hint "raised", where a
    rank has set its own peak back: its peak is then not known.
    """
    for one in evidence.ranks:
        if one.set_back:
            return Problem(
                f"rank {one.rank} has changed the kernel's count of its memory", "raised"
            )
    found = [one.peak_bytes for one in evidence.ranks if one.peak_bytes is not None]
    if len(found) < len(evidence.ranks):
        return CannotJudge("this system does not count the peak memory of a process")
    return found
