"""Nodes as `lscpu --extended` describes them, with ranks to bind there, and plans to write down."""

import random
from collections.abc import Sequence
from typing import Any

Row = dict[str, int]  # "cpu", "core", "socket", "numa"
Case = dict[str, Any]  # "cpus", "ranks", "gpus", "reserved"; "words" describe the node

# How the kernel numbers the hardware threads of cores: each has been met.
SPREAD, SIDE_BY_SIDE, ALTERNATING = "spread", "side by side", "alternating"


def node(sockets: int, cores: int, threads: int, numa: int, numbering: str) -> list[Row]:
    """A row for each CPU, in the order of their numbers; `cores` and `numa` are of one socket.

    SPREAD: all first hardware threads, socket by socket, then all second ones. SIDE_BY_SIDE: the
    threads of a core one after the other. ALTERNATING: as SPREAD, but neighbours in number are on
    different sockets.
    """
    places = [(socket, number) for socket in range(sockets) for number in range(cores)]
    if numbering == ALTERNATING:
        places.sort(key=lambda place: (place[1], place[0]))
    rows = []
    for core, (socket, number) in enumerate(places):
        for thread in range(threads):
            beside = numbering == SIDE_BY_SIDE
            cpu = core * threads + thread if beside else core + thread * len(places)
            domain = socket * numa + number // (cores // numa)
            rows.append({"cpu": cpu, "core": core, "socket": socket, "numa": domain})
    return sorted(rows, key=lambda row: row["cpu"])


SIZES = (32, 48, 64)  # cores of a socket
# (sockets, cores, threads, NUMA nodes of a socket, numbering, ranks per domain, what the domain is,
# extra). The first two are always the nodes of 2 × 64 cores with and without hyperthreads.
KINDS = (
    (2, (64,), 1, 1, SPREAD, (1, 2, 4), "numa", ""),
    (2, (64,), 2, 1, SPREAD, (1, 2, 4), "numa", ""),
    (2, SIZES, 2, 1, SIDE_BY_SIDE, (1, 2, 4), "numa", ""),
    (2, SIZES, 2, 1, ALTERNATING, (2, 4), "numa", ""),
    (2, SIZES, 2, 4, SPREAD, (1, 2), "numa", ""),
    (2, SIZES, 2, 4, SPREAD, (1, 2), "socket", ""),
    (1, SIZES, 2, 1, SIDE_BY_SIDE, (3, 5), "numa", ""),
    (2, SIZES, 2, 1, SPREAD, (1,), "machine", ""),
    (2, SIZES, 2, 4, SIDE_BY_SIDE, (3,), "machine", ""),
    (2, SIZES, 2, 1, SPREAD, (2,), "numa", "reserved"),
    (2, SIZES, 2, 4, SIDE_BY_SIDE, (1,), "numa", "reserved"),
    (2, SIZES, 2, 4, SPREAD, (1, 2), "socket", "reserved"),
    (2, SIZES, 2, 1, SPREAD, (2,), "numa", "gpus"),
    (2, SIZES, 1, 4, SPREAD, (1,), "numa", "gpus"),
    (2, SIZES, 2, 1, ALTERNATING, (2,), "numa", "gpus and reserved"),
    (2, SIZES, 2, 1, SPREAD, (2,), "numa", "unevenly spread gpus"),
)


def case(
    draw: random.Random,
    sockets: int,
    sizes: Sequence[int],
    threads: int,
    numa: int,
    numbering: str,
    per_domain: Sequence[int],
    level: str,
    extra: str,
) -> Case:
    cores = draw.choice(sizes)
    cpus = node(sockets, cores, threads, numa, numbering)
    domains = {"numa": sockets * numa, "socket": sockets, "machine": 1}[level]
    ranks = draw.choice(per_domain) * domains
    gpus = [rank * domains // ranks for rank in range(ranks)] if "gpus" in extra else []
    if "unevenly" in extra:  # one GPU at a NUMA node, and all others at the next
        gpus[1 : ranks // domains] = [1] * (ranks // domains - 1)
    while gpus == sorted(gpus) and gpus:
        draw.shuffle(gpus)  # so that rank r is not near GPU r by itself
    reserved: list[int] = []
    if "reserved" in extra:
        # A thread of each of three cores of one NUMA node, with an even number of cores and one or
        # two ranks: an answer that overlooks any of them deals out a core too many to each.
        at = draw.randrange(sockets * numa)
        own = {row["core"]: row for row in cpus if row["numa"] == at}
        reserved = [draw.choice(siblings(cpus, own[core])) for core in draw.sample(sorted(own), 3)]
    words = f"{sockets} × {cores} cores with {threads} hardware thread{'s' * (threads > 1)} each"
    words += f", {sockets * numa} NUMA node{'s' * (sockets * numa > 1)}, {ranks} ranks"
    words += f", CPUs {', '.join(map(str, reserved))} reserved" if reserved else ""
    words += f", GPUs at NUMA nodes {gpus}" if gpus else ""
    return {"cpus": cpus, "ranks": ranks, "gpus": gpus, "reserved": reserved, "words": words}


def siblings(cpus: Sequence[Row], one: Row) -> list[int]:
    return [row["cpu"] for row in cpus if row["core"] == one["core"]]


def scattered(draw: random.Random) -> dict[str, Any]:
    """A plan that follows from no node that was asked for, and how many CPUs its node has."""
    ranks, cores, total = draw.randint(2, 4), draw.randint(3, 7), draw.choice((48, 64, 96))
    chosen = draw.sample(range(total), ranks * cores)
    plan = [sorted(chosen[rank * cores : (rank + 1) * cores]) for rank in range(ranks)]
    return {"plan": plan, "cpus": total}
