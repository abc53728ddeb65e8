"""Addresses that this machine does not use yet."""

import hashlib
import ipaddress
from collections.abc import Iterable
from pathlib import Path

from hpml.cluster.shape import HEAD, Shape
from hpml.errors import UserError

Subnet = ipaddress.IPv4Network

HEAD_ADDRESS, LOGIN_ADDRESS = 253, 254  # within the subnet; nodes count from 1


def interface(folder: Path) -> str:
    """The name of this machine's interface to the cluster in `folder`; unique to that folder."""
    return f"hpml{_number(folder):08x}"


def choose(folder: Path, used: Iterable[Subnet]) -> Subnet:
    """A /24 of the private 10.0.0.0/8 (RFC 1918) that overlaps none of `used`.

    The first candidate depends on `folder`, so that clusters of two checkouts seldom collide.
    """
    used = tuple(used)
    for i in range(2**16):
        number = (_number(folder) + i * 7919) % 2**16  # a prime step visits every number
        candidate = Subnet((10 << 24 | number << 8, 24))
        if not any(candidate.overlaps(other) for other in used):
            return candidate
    raise UserError("no free network in 10.0.0.0/8: this machine has a route to all of it")


def in_use() -> list[Subnet]:
    """The networks that this machine has an address in or a route to, but for the default route."""
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        found = [
            (route.get_attr("RTA_DST"), route["dst_len"])
            for route in netlink.get_routes(family=2)  # AF_INET
            if route["dst_len"]
        ]
        found += [
            (address.get_attr("IFA_ADDRESS"), address["prefixlen"])
            for address in netlink.get_addr(family=2)
        ]
    return [Subnet(f"{address}/{length}", strict=False) for address, length in found if address]


def addresses(subnet: Subnet, shape: Shape) -> dict[str, str]:
    """Address by host name: the nodes and the head."""
    nodes = {name: str(subnet[i + 1]) for i, name in enumerate(shape.names)}
    return {**nodes, HEAD: str(subnet[HEAD_ADDRESS])}


def hosts_file(subnet: Subnet, shape: Shape, login: str) -> str:
    """/etc/hosts of every node. `login` is this machine's own host name.

    A server that listens on IPv6, as torch's rendezvous does, sees IPv4 clients as ::ffff:ADDRESS
    and looks their names up. Those are other names than the nodes', so that n1 has one address.
    """
    lines = ["127.0.0.1 localhost"]
    for name, address in addresses(subnet, shape).items():
        lines += [f"{address} {name}", f"::ffff:{address} {name}.ipv4"]
    lines.append(f"{subnet[LOGIN_ADDRESS]} login {login}")
    return "\n".join(lines) + "\n"


def _number(folder: Path) -> int:
    return int.from_bytes(hashlib.sha256(str(folder).encode()).digest()[:4], "big")
