"""Run Python on N ranks, and know what happened: `launch(drive, world_size) -> Evidence`."""

from hpml.ranks.evidence import Call, Diagnosis, Evidence, Mark, Raised, RankEvidence, Traffic
from hpml.ranks.launch import launch
from hpml.ranks.recorder import mark

__all__ = [
    "Call",
    "Diagnosis",
    "Evidence",
    "Mark",
    "Raised",
    "RankEvidence",
    "Traffic",
    "launch",
    "mark",
]
