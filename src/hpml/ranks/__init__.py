"""Run Python on N ranks, and know what happened: `launch(drive, world_size) -> Evidence`.

A folder for each process of a launch, in the order in which one forks the next: `parent`, `server`,
`supervisor`, `proxy`, `rank`. The files beside them are used in several.
"""

from hpml.ranks.evidence import (
    Asked,
    Call,
    Diagnosis,
    Evidence,
    Mark,
    Raised,
    RankEvidence,
    Traffic,
)
from hpml.ranks.killing import Kill
from hpml.ranks.parent.launch import launch
from hpml.ranks.parent.serving import Reply, Server
from hpml.ranks.rank.asking import ask
from hpml.ranks.rank.recorder import mark

__all__ = [
    "Asked",
    "Call",
    "Diagnosis",
    "Evidence",
    "Kill",
    "Mark",
    "Raised",
    "RankEvidence",
    "Reply",
    "Server",
    "Traffic",
    "ask",
    "launch",
    "mark",
]
