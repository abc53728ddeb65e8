"""A ring and the order of its ranks: how often it crosses from one node to another.

A ring knows no nodes. Where ranks of one node are neighbours in it, it enters and leaves each node
once. Where ranks were dealt out to the nodes in turn (SLURM's --distribution=cyclic), each message
crosses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hpml.allreduce.algorithms import schedule
from hpml.allreduce.transfers import Schedule
from hpml.predict.collectives import Cost
from hpml.ranks import launch

IN_ORDER, DEALT_OUT, TWO_LEVELS = "ring, node by node", "ring, dealt out", "two levels"
STEPS = 3


@dataclass(frozen=True)
class Crossed:
    """An all-reduce between nodes: MB that the busiest node sent, and seconds of the quickest.

    `predicted` are the seconds by the bytes alone.
    """

    sent: float
    seconds: float
    predicted: float


def renumbered(plan: Schedule, order: Sequence[int]) -> Schedule:
    """`plan` with rank `order[r]` in the place of r. Any order makes the same sums."""
    if sorted(order) != list(range(plan.world_size)):
        raise ValueError(f"{list(order)} is not an order of {plan.world_size} ranks")
    steps = tuple(
        tuple(replace(t, source=order[t.source], destination=order[t.destination]) for t in step)
        for step in plan.steps
    )
    return replace(plan, steps=steps)


def dealt_out(nodes: int, per_node: int) -> list[int]:
    """One rank of each node in turn: 0, 4, 1, 5, 2, 6, 3, 7 for 2 nodes of 4."""
    return [node * per_node + rank for rank in range(per_node) for node in range(nodes)]


def plans(nodes: int, per_node: int) -> dict[str, Schedule]:
    """The three all-reduces that are compared, by name."""
    ring = schedule("ring", nodes * per_node)
    return {
        IN_ORDER: ring,
        DEALT_OUT: renumbered(ring, dealt_out(nodes, per_node)),
        TWO_LEVELS: schedule("hierarchical", nodes * per_node, per_node),
    }


def measure(
    nodes: int, per_node: int, inside: int, between: int, length: int
) -> dict[str, Crossed] | None:
    """Each of `plans` on `length` float32, over links of `inside` and `between` Mbit/s.

    None where this machine cannot emulate a network.
    """
    ranks = nodes * per_node
    link = f"nodes={nodes}x{per_node},intra={inside}mbit,inter={between}mbit"
    found = {}
    for name, plan in plans(nodes, per_node).items():
        evidence = launch(_on_a_rank, ranks, inputs=[(plan, length)] * ranks, link=link)
        if not evidence.uplinks:
            return None
        sent = max(uplink.sent_bytes for uplink in evidence.uplinks) / STEPS / 1e6
        seconds = min(max(step) for step in zip(*evidence.values, strict=True))
        costs = Cost(0.0, 8e-6 / inside), Cost(0.0, 8e-6 / between)
        predicted = plan.seconds(4 * length, costs[0], per_node, costs[1])
        found[name] = Crossed(sent, seconds, predicted)
    return found


def table(found: Mapping[str, Crossed]) -> str:
    """A line for each: MB that a node sends, seconds, and those that its bytes need."""
    lines = [f"{'':22}{'leaves a node':>14}{'measured':>12}{'by its bytes':>14}"]
    for name, one in found.items():
        seconds = f"{1e3 * one.seconds:.0f} ms", f"{1e3 * one.predicted:.0f} ms"
        lines.append(f"{name:22}{f'{one.sent:.1f} MB':>14}{seconds[0]:>12}{seconds[1]:>14}")
    return "\n".join(lines)


def order_counts(found: Mapping[str, Crossed]) -> bool:
    """Ranks dealt out cost a ring the node's link; two levels need least of it."""
    ordered, dealt, two = (found[name] for name in (IN_ORDER, DEALT_OUT, TWO_LEVELS))
    bytes_do = dealt.sent > 2 * ordered.sent > 2 * two.sent
    return bytes_do and dealt.seconds > 1.5 * ordered.seconds


def _on_a_rank(work: tuple[Schedule, int]) -> list[float]:
    """Seconds of each all-reduce on this rank."""
    import time

    import torch
    import torch.distributed as dist

    from hpml.allreduce.execute import run

    plan, length = work
    taken = []
    for _ in range(STEPS):
        tensor = torch.ones(length)
        dist.barrier()
        began = time.perf_counter()
        run(plan, tensor)
        taken.append(time.perf_counter() - began)
        assert tensor.eq(dist.get_world_size()).all()
    return taken
