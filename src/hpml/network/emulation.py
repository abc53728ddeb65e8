"""A cluster's network for one launch: ranks in network namespaces behind rate-limited links.

    rank 0 ── eth0 ═══ port0 ─┐                      rank 0 ─┐
    rank 1 ── eth0 ═══ port1 ─┤ switch               rank 1 ─┤ switch0 ── uplink0 ═══ core0 ─┐
    rank 2 ── eth0 ═══ port2 ─┤                      rank 2 ─┐                               │ core
    rank 3 ── eth0 ═══ port3 ─┘                      rank 3 ─┤ switch1 ── uplink1 ═══ core1 ─┘
         one rate                                        nodes=2x2

Everything is made by an ordinary user, inside one user namespace of the launch's supervisor: no
root, no daemon. It goes when the last process in it does, however that ends. Both ends of each
cable are limited by the kernel (a token bucket, tc-tbf(8)); latency is the machine's own and cannot
be added here (see `hpml.network.veth`). Ranks reach each other and nothing else.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from hpml.network.link import Link

if TYPE_CHECKING:
    from pyroute2 import IPRoute

INTERFACE = "eth0"  # of each rank, in its own namespace

# Sent bytes, sent packets, received bytes, received packets: the fields of `evidence.Traffic`
Counts = tuple[int, int, int, int]

Result = TypeVar("Result")

# sched.h
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


class NoNetwork(Exception):
    """This machine cannot emulate a network. The message is what is missing."""


def address(rank: int) -> str:
    return f"10.77.0.{rank + 1}"


@dataclass(frozen=True)
class Network:
    """The namespaces of the ranks, as descriptors in the process that built them."""

    link: Link
    namespaces: tuple[int, ...]

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a rank on this network, besides those that every rank has."""
        return {"MASTER_ADDR": address(0), "GLOO_SOCKET_IFNAME": INTERFACE}

    def enter(self, rank: int) -> None:
        """Move this process, a rank just forked, to its own end of the cable.

        `drop_privileges` must follow: a rank has no right to change limits, counters or interfaces.
        """
        libc_call("setns", self.namespaces[rank], CLONE_NEWNET)
        for namespace in self.namespaces:
            os.close(namespace)

    def on_each(self, make: Callable[[], Result]) -> list[Result]:
        """What `make` returns in each rank's namespace; a socket made there stays there."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            made = []
            for namespace in self.namespaces:
                libc_call("setns", namespace, CLONE_NEWNET)
                made.append(make())
            return made
        finally:
            libc_call("setns", home, CLONE_NEWNET)
            os.close(home)

    def traffic(self) -> dict[str, list[Counts]]:
        """The interface counters of "ranks", and of "nodes" that have an uplink.

        Read at the switch, out of the ranks' reach: what a rank sent is what its port received.
        """
        from pyroute2 import IPRoute

        with IPRoute() as netlink:
            counters = {
                link.get_attr("IFLA_IFNAME"): link.get_attr("IFLA_STATS64")
                for link in netlink.get_links()
            }
        ranks = [_seen_from_port(counters[f"port{r}"]) for r in range(len(self.namespaces))]
        nodes = self.link.node(len(ranks) - 1) + 1 if self.link.uplink else 0
        uplinks = [_seen_from_port(counters[f"core{node}"]) for node in range(nodes)]
        return {"ranks": ranks, "nodes": uplinks}


def build(link: Link, world_size: int, privileged: bool = False) -> Network:
    """Make the network that `link` describes, around this process, which must have one thread.

    This process, and what it forks, leaves the network namespace it was in, and its user namespace,
    unless it is `privileged` there; its own new one holds the switches. Raises NoNetwork; then this
    process has a working loopback interface, if no more.
    """
    try:
        from pyroute2 import IPRoute, NetlinkError
    except ImportError:
        raise NoNetwork("pyroute2 is not installed, or not for this system") from None
    try:
        libc_call("unshare", CLONE_NEWNET) if privileged else _own_namespaces()
    except OSError as error:
        raise NoNetwork(f"namespaces for ordinary users are switched off ({error})") from None
    try:
        with IPRoute() as netlink:
            return _build(netlink, link, world_size)
    except (NetlinkError, OSError) as error:
        # pyroute2 gives (number, text)
        raise NoNetwork(f"the kernel refuses a bridge, veth or tbf ({error.args[-1]})") from None


def _build(netlink: "IPRoute", link: Link, world_size: int) -> Network:
    from pyroute2 import IPRoute

    from hpml.network import veth

    netlink.link("set", index=veth.index_of(netlink, "lo"), state="up")
    veth.disable_ipv6()
    if link.uplink is None:
        switches = [veth.bridge(netlink, "switch")]
    else:
        core = veth.bridge(netlink, "core")
        switches = []
        for node in range(link.node(world_size - 1) + 1):
            switches.append(veth.bridge(netlink, f"switch{node}"))
            up = veth.pair(netlink, f"uplink{node}", f"core{node}")
            veth.plug(netlink, up, switches[-1], link.uplink)
            veth.plug(netlink, veth.index_of(netlink, f"core{node}"), core, link.uplink)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    namespaces = []
    try:
        for rank in range(world_size):
            libc_call("unshare", CLONE_NEWNET)
            namespaces.append(os.open("/proc/self/ns/net", os.O_RDONLY))
            veth.disable_ipv6()
            with IPRoute() as there:
                own = veth.pair(there, INTERFACE, f"port{rank}", home)
                there.addr("add", index=own, address=address(rank), prefixlen=24)
                veth.limit(there, own, link.rate)
                there.link("set", index=own, state="up")
                there.link("set", index=veth.index_of(there, "lo"), state="up")
    finally:
        libc_call("setns", home, CLONE_NEWNET)
        os.close(home)
    for rank in range(world_size):
        port = veth.index_of(netlink, f"port{rank}")
        veth.plug(netlink, port, switches[link.node(rank) if link.uplink else 0], link.rate)
    return Network(link, tuple(namespaces))


def enter_nothing(network: Network | None, privileged: bool) -> None:
    """Move this process, which must have one thread, to a network without a working interface.

    As with `build`, to a user namespace of its own as well, unless it is `privileged`. `network` is
    the one that it knows of. Raises OSError where namespaces cannot be had.
    """
    libc_call("unshare", CLONE_NEWNET) if privileged else _own_namespaces()
    for namespace in network.namespaces if network is not None else ():
        os.close(namespace)


def enter_loopback(privileged: bool) -> None:
    """Move this process, which must have one thread, to a network of a loopback interface alone.

    Namespaces as with `enter_nothing`. Raises OSError where they cannot be had; then this process
    has the network that it had.
    """
    libc_call("unshare", CLONE_NEWNET) if privileged else _own_namespaces()
    loopback_up()


def loopback_up() -> None:
    """Start the loopback interface of this process's own network."""
    get_flags, set_flags, up = 0x8913, 0x8914, 1  # of netdevice(7)
    with socket.socket() as any_socket:
        request = fcntl.ioctl(any_socket, get_flags, struct.pack("16sH14x", b"lo", 0))
        name, flags = struct.unpack("16sH14x", request)
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sH14x", name, flags | up))


def own_namespaces_refused() -> int:
    """The number of the error with which this system refuses `_own_namespaces`; 0 where it does
    not. A fork tries, once: a process that is refused halfway cannot go back.
    """
    global _refused
    if _refused is None:
        pid = os.fork()
        if pid == 0:
            try:
                _make_own_namespaces()
                os._exit(0)
            except OSError as error:
                os._exit(error.errno or errno.EPERM)
            finally:
                os._exit(errno.EPERM)
        _refused = abs(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return _refused


_refused: int | None = None


def _own_namespaces() -> None:
    """A user namespace of this process's own, in which it may do anything, and a network in it.

    Users and groups keep their numbers, so that files keep their owners. Raises OSError where the
    system refuses it; then this process stays where it is.
    """
    if number := own_namespaces_refused():
        raise OSError(number, f"user namespaces: {os.strerror(number)}")
    _make_own_namespaces()


def _make_own_namespaces() -> None:
    """Some systems give a user namespace without its rights, so that its maps cannot be written."""
    user, group = os.getuid(), os.getgid()
    libc_call("unshare", CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),  # without it, an ordinary user may not map groups
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    libc_call("unshare", CLONE_NEWNET)


def drop_privileges() -> None:
    """Give up all capabilities in the user namespace, for good and for what is executed later.

    Does nothing on a system that has no capabilities.
    """
    if sys.platform != "linux":
        return
    pr_capbset_drop, pr_set_no_new_privs, last_capability = 24, 38, 63
    for capability in range(last_capability + 1):
        if _libc.prctl(pr_capbset_drop, capability, 0, 0, 0):
            break  # the kernel knows no more of them
    _libc.prctl(pr_set_no_new_privs, 1, 0, 0, 0)
    version_3 = 0x20080522
    header = (ctypes.c_uint32 * 2)(version_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    libc_call("capset", header, nothing)


def _seen_from_port(counters: dict[str, int]) -> Counts:
    received = counters["rx_bytes"], counters["rx_packets"]
    return *received, counters["tx_bytes"], counters["tx_packets"]


_libc = ctypes.CDLL(None, use_errno=True)


def libc_call(name: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0. Raises OSError where it fails, or where the
    system has no such function."""
    try:
        function = getattr(_libc, name)
    except AttributeError:
        raise OSError(errno.ENOSYS, f"{name}: not on this system") from None
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
