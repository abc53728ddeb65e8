"""What an all-reduce sends from one node to the other, counted by the kernel."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hpml.ranks import launch

LINK = "nodes=2x2,intra=10gbit,inter=1gbit"
HEADERS = 66  # bytes of each packet: Ethernet, IPv4, TCP with its time stamps
PAYLOAD = 1448  # bytes of a full packet, besides


@dataclass(frozen=True)
class Leaving:
    """What the busier of two nodes sent to the other.

    `sent`: MB, as the kernel counted them on the node's link. `packets`: how many packets these
    were. `again`: how many packets its ranks sent a second time, also to each other.
    """

    sent: float
    packets: int
    again: int

    @property
    def headers(self) -> float:
        """MB of the packets' headers."""
        return self.packets * HEADERS / 1e6

    @property
    def repeated(self) -> float:
        """MB that were sent a second time, at most."""
        return self.again * PAYLOAD / 1e6


def leaves_a_node(algorithm: str, length: int = 1_000_000) -> Leaving | None:
    """What leaves a node when two ranks on each of two add `length` float32.

    `algorithm` is a name of `hpml.allreduce.algorithms`. None where this machine cannot emulate a
    network.
    """
    evidence = launch(partial(_on_a_rank, algorithm, length), 4, link=LINK)
    if not evidence.uplinks:
        return None
    again = [sum(evidence.values[2 * node : 2 * node + 2]) for node in (0, 1)]
    busier = max((0, 1), key=lambda node: evidence.uplinks[node].sent_bytes)
    uplink = evidence.uplinks[busier]
    return Leaving(uplink.sent_bytes / 1e6, uplink.sent_packets, again[busier])


def _on_a_rank(algorithm: str, length: int) -> int:
    """Returns how many packets this rank's TCP sent again."""
    import torch

    from hpml.allreduce.execute import all_reduce

    tensor = torch.ones(length)
    all_reduce(tensor, algorithm, per_node=2)
    assert tensor.eq(4).all()
    return packets_sent_again(Path("/proc/self/net/snmp").read_text())


def packets_sent_again(snmp: str) -> int:
    """TCP's RetransSegs, out of the text of /proc/net/snmp (Linux; RFC 4022, tcpRetransSegs).

    They count in packets, also where a bundle of packets was sent again.
    """
    names, values = (line.split() for line in snmp.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("RetransSegs")])
