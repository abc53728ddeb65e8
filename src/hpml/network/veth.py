"""Bridges, veth pairs and rate limits, made over netlink (pyroute2). Linux only.

The caller has the network namespace to itself, with CAP_NET_ADMIN in it. Latency cannot be added:
that takes the netem queueing discipline, which few kernels in containers and none of the course's
reference machines have. A sleep in user space would not be a network's latency.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute

PACKET = 1500  # bytes, the largest that travels, as on Ethernet


@dataclass(frozen=True)
class Bucket:
    """How a token bucket (tc-tbf(8)) keeps to a rate: sizes in bytes."""

    rate: int  # bytes/s
    burst: int  # may pass at once after a pause
    segment: int  # the largest bundle of packets that the kernel hands over as one
    queue: int  # waits at most; what does not fit is dropped


def bucket(rate: int) -> Bucket:
    """The bucket for `rate` bit/s.

    Bundles are small enough for sending one to take about 0.26 ms, and the burst is one bundle and
    a little, so that a message of some tens of kilobytes already feels the rate; a burst smaller
    than a bundle would have the kernel cut it into single packets, at twice the processor's time.
    Above 2 Gbit/s the kernel's timers are too coarse for that, and a burst is a millisecond's
    worth. The queue holds whatever TCP has under way: on this emulated network nothing is lost.
    """
    per_second = rate / 8
    segment = min(max(int(per_second * 260e-6), 4096), 65536)
    burst = max(int(1.25 * segment), 2 * PACKET)
    if rate > 2 * 10**9:
        burst = max(burst, int(per_second * 1e-3))
    return Bucket(math.ceil(per_second), burst, segment, 32 << 20)


def limit(netlink: IPRoute, index: int, rate: int) -> None:
    """Limit what interface `index` sends to `rate` bit/s."""
    sizes = bucket(rate)
    netlink.link("set", index=index, gso_max_size=sizes.segment)
    netlink.tc("add", "tbf", index, rate=sizes.rate, burst=sizes.burst, limit=sizes.queue)


def bridge(netlink: IPRoute, name: str) -> int:
    """A new switch; returns its index."""
    netlink.link("add", ifname=name, kind="bridge")
    index = index_of(netlink, name)
    netlink.link("set", index=index, state="up")
    return index


def pair(netlink: IPRoute, name: str, peer: str, peer_namespace: int | None = None) -> int:
    """A new cable: `name` here, `peer` here or in the namespace behind that descriptor.

    Returns the index of `name`. Both ends are still down.
    """
    end: dict[str, Any] = {"ifname": peer}
    if peer_namespace is not None:
        end["net_ns_fd"] = peer_namespace
    netlink.link("add", ifname=name, kind="veth", peer=end)
    return index_of(netlink, name)


def plug(netlink: IPRoute, index: int, into: int, rate: int | None = None) -> None:
    """Plug cable end `index` into the switch `into`; limit what the switch sends to `rate`."""
    netlink.link("set", index=index, master=into, state="up")
    if rate is not None:
        limit(netlink, index, rate)


def index_of(netlink: IPRoute, name: str) -> int:
    return netlink.link_lookup(ifname=name)[0]


def disable_ipv6() -> None:
    """Disable IPv6 on this namespace's future interfaces: its announcements would be counted."""
    for which in ("all", "default"):
        setting = Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        if setting.exists():  # a kernel without IPv6 has none
            setting.write_text("1")
