"""Run Python on N ranks, and know what happened: `launch(drive, world_size) -> Evidence`.

A folder for each kind of process, with what it alone begins:

    parent ──► server ──► supervisor ──► proxy, where there is one, and rank; for each rank
    parent ──► srun ──► agent ──► rank; for each rank, on the nodes of a cluster

What one process forks it may import, to have it ready; a proxy also takes from `rank` what records
calls. Nothing of `proxy` and `rank` runs in the parent. The files beside the folders are used by
several.
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
