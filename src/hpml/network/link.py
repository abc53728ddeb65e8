"""`--link`: one rate for every rank, or nodes with fast links within and slow ones between."""

import re
from dataclasses import dataclass

from hpml.errors import UserError

UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
LOWEST, HIGHEST = 100 * 10**3, 32 * 10**9  # bit/s; tc counts bytes in 32 bits

EXAMPLES = "100mbit, 1gbit or nodes=2x2,intra=10gbit,inter=1gbit"


@dataclass(frozen=True)
class Link:
    """Which rank sits where, and how fast it may send and receive.

    Every rank has an interface of its own, limited to `rate` bit/s in each direction. Rank r is on
    node r // `per_node`; where there are several nodes, all traffic between one node and the others
    shares an uplink of `uplink` bit/s in each direction. With `uplink` None there is one switch,
    and for the network every rank is a node of its own.
    """

    text: str  # as it was asked for
    rate: int
    per_node: int = 1
    uplink: int | None = None

    def node(self, rank: int) -> int:
        return rank // self.per_node


def parse_link(text: str, world_size: int) -> Link:
    """The Link that `text` means for `world_size` ranks.

    A rate ("1gbit": every rank at 1 Gbit/s), or "nodes=2x2,intra=10gbit,inter=1gbit": two nodes of
    two ranks, 10 Gbit/s for each rank, 1 Gbit/s for each node's link to the others.

    Raises UserError for anything else, and for nodes that do not make `world_size` ranks.
    """
    if "=" not in text:
        return Link(text, parse_rate(text))
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    if sorted(parts) != ["inter", "intra", "nodes"] or text.count("=") != len(parts):
        raise UserError(f"link {text!r}: give nodes, intra and inter, once each, as in {EXAMPLES}")
    shape = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", parts["nodes"])
    if not shape:
        raise UserError(
            f"link {text!r}: nodes={parts['nodes']} is not NODESxRANKS, as in nodes=2x2"
        )
    nodes, per_node = int(shape[1]), int(shape[2])
    if nodes * per_node != world_size:
        raise UserError(
            f"link {text!r}: {nodes} nodes of {per_node} are {nodes * per_node} ranks, "
            f"and {world_size} were asked for: make the two agree"
        )
    return Link(text, parse_rate(parts["intra"]), per_node, parse_rate(parts["inter"]))


def parse_rate(text: str) -> int:
    """Bits per second that "100mbit" or "2.5gbit" means. Raises UserError for anything else."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]+)", text.strip().lower())
    unit = UNITS.get(match[2]) if match else None
    if match is None or unit is None:
        why = "bps is bytes per second to some and bits to others" if "bps" in text.lower() else ""
        raise UserError(
            f"link {text!r} is not a rate{f' ({why})' if why else ''}: "
            f"give a number with kbit, mbit or gbit, as in {EXAMPLES}"
        )
    rate = round(float(match[1]) * unit)
    if not LOWEST <= rate <= HIGHEST:
        raise UserError(f"link {text!r}: give a rate from 100kbit to 32gbit")
    return rate


def format_rate(rate: int) -> str:
    """`rate` bit/s as people write it: "1 Gbit/s"."""
    for unit, factor in (("Gbit/s", 10**9), ("Mbit/s", 10**6), ("kbit/s", 10**3)):
        if rate >= factor:
            return f"{rate / factor:.4g} {unit}"
    return f"{rate} bit/s"
