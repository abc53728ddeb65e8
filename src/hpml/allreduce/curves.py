"""All-reduce time against size on one network: predicted from a ping-pong, and measured.

What takes seconds is measured once, without a warm-up, so that a curve up to megabytes over a slow
link fits into a lecture. `hpml.allreduce.timing` measures with more care.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist

from hpml.allreduce.algorithms import schedule
from hpml.allreduce.execute import all_reduce
from hpml.allreduce.timing import LIBRARY
from hpml.errors import UserError
from hpml.measure.comm import Fit, fit, ping_pong
from hpml.network.link import Link, parse_link
from hpml.predict.collectives import Cost, all_reduce_bytes
from hpml.predict.collectives import seconds as seconds_of
from hpml.ranks import Evidence, launch

PER_NODE = 2  # ranks, for the hierarchical algorithm on a network without nodes
MOST = 10  # repeats of quick all-reduces
ROUNDS = 3  # of a ping-pong
ENOUGH = 0.1  # seconds for the repeats of one algorithm at one size


@dataclass(frozen=True)
class Network:
    """`ranks` ranks behind a link, and what a message costs: within a node, and between nodes."""

    link: Link
    ranks: int
    within: Fit
    across: Fit | None

    @property
    def per_node(self) -> int:
        return self.link.per_node if self.link.uplink else PER_NODE


def network(text: str, ranks: int) -> Network:
    """Measure α and β between two ranks of the link `text` (see `hpml.network.link`).

    Raises UserError where this machine cannot emulate a network.
    """
    link = parse_link(text, ranks)
    within = _message(link, ranks, 1, link.rate) if link.per_node > 1 or not link.uplink else None
    across = _message(link, ranks, link.per_node, link.uplink) if link.uplink else None
    return Network(link, ranks, within or across, across)


def predicted(network: Network, algorithm: str) -> Callable[[float], float]:
    """The α–β model of an all-reduce by `algorithm`: seconds by bytes."""
    plan = schedule(algorithm, network.ranks, network.per_node)
    within = Cost(network.within.alpha, network.within.beta)
    across = Cost(network.across.alpha, network.across.beta) if network.across else None
    return lambda nbytes: plan.seconds(nbytes, within, network.per_node, across)


def least(network: Network, nbytes: float) -> float:
    """Lower bound in seconds of an all-reduce of `nbytes`, where the ranks themselves add.

    2 (p-1)/p · n over each rank's link, and with N nodes 2 (N-1)/N · n over each node's link
    (Patarasuk and Yuan 2009, section 3).
    """
    own = seconds_of(all_reduce_bytes(network.ranks, nbytes), network.link.rate)
    if not network.link.uplink:
        return own
    nodes = network.ranks // network.per_node
    return max(own, seconds_of(all_reduce_bytes(nodes, nbytes), network.link.uplink))


def measured(
    network: Network, algorithms: Sequence[str], sizes: Sequence[int], longest: float
) -> dict[str, dict[int, float]]:
    """Seconds of all-reduces by algorithm and by bytes, LIBRARY being torch.distributed's own.

    Each is the quickest of up to MOST repeats, on the rank that took longest. What takes more than
    `longest` seconds by the model is left out; LIBRARY counts as a ring there.

    Raises UserError where the launch fails.
    """
    expected = {
        name: predicted(network, "ring" if name == LIBRARY else name) for name in algorithms
    }
    work = plan(expected, sizes, longest)
    inputs = [{"work": [list(one) for one in work], "per_node": network.per_node}] * network.ranks
    ran = _checked(
        launch(_on_rank, network.ranks, inputs=inputs, link=network.link.text, timeout=600)
    )
    found: dict[str, dict[int, float]] = {name: {} for name in algorithms}
    for number, (name, nbytes, _) in enumerate(work):
        by_repeat = zip(*(rank[number] for rank in ran.values), strict=True)
        found[name][nbytes] = min(max(repeat) for repeat in by_repeat)
    return found


def plan(
    expected: Mapping[str, Callable[[float], float]], sizes: Sequence[int], longest: float
) -> list[tuple[str, int, int]]:
    """(algorithm, bytes, repeats) to measure, smallest first: that warms the connections up."""
    return [
        (name, nbytes, max(1, min(MOST, int(ENOUGH / seconds(nbytes)))))
        for nbytes in sorted(sizes)
        for name, seconds in expected.items()
        if seconds(nbytes) <= longest
    ]


def _on_rank(inputs: dict) -> list[list[float]]:
    taken = []
    for name, nbytes, repeats in inputs["work"]:
        tensor = torch.zeros(max(1, nbytes // 4))
        taken.append([])
        for _ in range(repeats):
            dist.barrier()
            began = time.perf_counter()
            if name == LIBRARY:
                dist.all_reduce(tensor)
            else:
                all_reduce(tensor, name, inputs["per_node"])
            taken[-1].append(time.perf_counter() - began)
    return taken


def _message(link: Link, ranks: int, peer: int, rate: int) -> Fit:
    """Fit α and β to messages from rank 0 to rank `peer`; the largest takes 80 ms."""
    small, large = (4, 256, 1024), (rate // 250, rate // 100)
    drive = partial(_ping_pong, small, large, peer)
    return fit(small + large, _checked(launch(drive, ranks, link=link.text)).values[0])


def _ping_pong(small: Sequence[int], large: Sequence[int], peer: int) -> list[float]:
    """By size, the quickest of `ROUNDS`: what else the machine does for a while only adds.

    Small messages cost little and scatter much, so they are repeated more often.
    """
    rounds = [
        ping_pong(small, repeats=40, peer=peer) + ping_pong(large, repeats=3, peer=peer)
        for _ in range(ROUNDS)
    ]
    return [min(taken) for taken in zip(*rounds, strict=True)]


def _checked(evidence: Evidence) -> Evidence:
    if evidence.no_link:
        raise UserError(f"no network can be emulated here: {evidence.no_link}")
    if evidence.diagnosis is not None:
        raise UserError(evidence.diagnosis.sentence)
    return evidence
