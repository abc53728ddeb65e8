"""Run Python on N ranks, and know what happened: `launch(drive, world_size) -> Evidence`."""

from hpml.ranks.asking import ask
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
from hpml.ranks.launch import launch
from hpml.ranks.recorder import mark
from hpml.ranks.serving import Reply, Server

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
