"""A learner's ring and Gloo's own all-reduce in one launch, in turn over the same links.

For answers that have passed: nothing is judged here, so what the ranks count and mark is good
enough. The exercise's rules are not installed, since they refuse Gloo's; the answer has passed
under them.
"""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.distributed import all_reduce, barrier

from hpml.answer import as_python
from hpml.checks.budget import elapsed, payload
from hpml.checks.contract import Check
from hpml.network.link import format_rate
from hpml.predict.collectives import all_reduce_bytes, seconds
from hpml.ranks import launch, mark
from hpml.ranks.evidence import Evidence, Traffic

RANKS = 3
LINK = "100mbit"
LONG = 72_000  # elements, float32: as long as the tensors that are judged
TURNS = 3  # of each; the shortest time counts
LIMIT = 10.0  # seconds
KINDS = YOURS, GLOOS = "yours", "Gloo's"


def beside_gloo(check: Check, source: str) -> list[str]:
    """Two lines: bytes that each rank sent and seconds, by this ring and by Gloo; none where this
    machine cannot emulate a network."""
    evidence = launch(
        in_turn, RANKS, answer=as_python(source), answer_name=check.id, link=LINK, timeout=LIMIT
    )
    return in_words(evidence)


def in_turn(answer: ModuleType) -> dict[str, Any]:
    """On a rank: all-reduces of the two kinds in turn. Returns what its interface had sent before
    and after each: (kind, bytes, packets, bytes, packets)."""
    given = torch.ones(LONG)
    kinds: dict[str, Callable[[torch.Tensor], Any]] = {
        YOURS: answer.ring_all_reduce,
        GLOOS: all_reduce,
    }
    sent = {name: [] for name in kinds}
    for _ in range(TURNS):
        for name, reduce in kinds.items():
            tensor = given.clone()
            barrier()
            before = sent_so_far()
            mark(f"{name}: begins")
            reduce(tensor)
            mark(f"{name}: ends")
            barrier()  # what is on its way to another rank has then arrived
            after = sent_so_far()
            sent[name].append([now - then for now, then in zip(after, before, strict=True)])
    return sent


def sent_so_far() -> tuple[int, int]:
    """Bytes and packets that this process's interfaces have sent to others, as in proc_net(5)."""
    rows = (line.partition(":") for line in Path("/proc/self/net/dev").read_text().splitlines())
    counters = [row.split() for name, colon, row in rows if colon and name.strip() != "lo"]
    return sum(int(row[8]) for row in counters), sum(int(row[9]) for row in counters)


def in_words(evidence: Evidence) -> list[str]:
    """The lines about a launch of `in_turn`; none if it had no links, or did not end well."""
    if evidence.link is None or evidence.diagnosis is not None:
        return []
    needed = all_reduce_bytes(evidence.world_size, 4 * LONG)
    least = seconds(needed, evidence.link.rate)
    took = {name: elapsed(evidence, (f"{name}: begins", f"{name}: ends")) for name in KINDS}
    sent = {name: most_sent(evidence, name) for name in KINDS}
    yours, gloos = (f"{kilobytes(sent[name])}, {1000 * took[name]:.0f} ms" for name in KINDS)
    return [
        f"Your ring: each rank sent {yours}. Gloo's all_reduce: {gloos}.",
        f"Best of {TURNS}, {kilobytes(4 * LONG)} on each of {evidence.world_size} ranks, "
        f"{format_rate(evidence.link.rate)}; 2 (p-1)/p of it are {kilobytes(needed)}, "
        f"and take {1000 * least:.0f} ms.",
    ]


def most_sent(evidence: Evidence, name: str) -> int:
    """Bytes without headers that the rank sent which sent most, in the turn with the fewest."""
    turns = zip(*(rank.value[name] for rank in evidence.ranks), strict=True)
    return min(max(payload(Traffic(nbytes, n, 0, 0)) for nbytes, n in turn) for turn in turns)


def kilobytes(nbytes: float) -> str:
    return f"{nbytes / 1000:.0f} kB"
