"""The head of a cluster: the process that everything else of it lives and ends with.

    this machine ── hpml1a2b3c4d ═══ login ─┐
    n1 ── eth0 ═══════════════════════ n1 ──┤ switch, on the head
    n2 ── eth0 ═══════════════════════ n2 ──┤
    …

It is process 1 of a process namespace and owns the network namespace with the switch. However it
ends, the kernel then ends every process of the cluster and removes its namespaces, mounts and
interfaces, this machine's end of the cable too. Nothing has to be cleaned up.

Each node is a process 1 as well, below the head's: the same holds for a node and what runs on it.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pyroute2 import IPRoute

from hpml.cluster import kernel
from hpml.cluster.folder import Folder
from hpml.cluster.process import write_pid_file
from hpml.cluster.shape import HEAD, Shape
from hpml.cluster.slurm_conf import CONTROLLER_PORT, GPU, SPOOL
from hpml.cluster.subnet import HEAD_ADDRESS, LOGIN_ADDRESS, Subnet, addresses, interface
from hpml.network import veth

PATIENCE = 20.0  # seconds that a part of the cluster waits for the one before it
INTERFACE = "eth0"  # of each node

_OWN = kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWNET


def main(path: str, proc: str, network: str, shared: Sequence[str]) -> NoReturn:
    """Become the cluster that is planned in the folder `path`.

    Runs as process 1 of a process namespace, in network, mount, IPC and host name namespaces of its
    own. `proc` and `network` are descriptors of the outer machine: its /proc, and its network
    namespace. `shared` are the folders in /tmp that all nodes see.
    """
    folder, outside = Folder(Path(path)), int(proc)
    write_pid_file(folder.pid_file(HEAD), outside)  # fails where `down` is at work already
    shape, subnet = folder.plan()
    socket.sethostname(HEAD)
    kernel.bind(folder.hosts, "/etc/hosts")
    switch = _switch(folder, subnet, int(network))
    os.close(int(network))

    munge = folder.munge
    _start(
        folder,
        outside,
        "munged",
        "munged --foreground --force --num-threads=4".split()
        + [f"--{name}={munge / name}" for name in ("socket", "key-file", "seed-file", "pid-file")]
        + [f"--log-file={folder.log('munged')}"],
    )
    _wait_for("munged's socket", (munge / "socket").exists)
    conf = str(folder.slurm_conf)
    os.environ["SLURM_CONF"] = conf
    _start(folder, outside, "slurmctld", ["slurmctld", "-D", "-f", conf])

    where = addresses(subnet, shape)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    for name in shape.names:
        started = os.fork()
        if started == 0:
            try:
                _become_node(folder, outside, here, name, where, shape, tuple(map(Path, shared)))
                os._exit(0)
            except BaseException as error:
                print(f"{name}: {error!r}", file=sys.stderr, flush=True)
                os._exit(1)
        if os.waitpid(started, 0)[1] != 0:
            sys.exit(f"{name} could not be made")
        with IPRoute() as netlink:
            veth.plug(netlink, veth.index_of(netlink, name), switch, shape.rate)
    os.close(here)
    while folder.path.exists():  # without its folder, nobody could find the cluster
        _reap(os.WNOHANG)
        time.sleep(0.5)
    sys.exit(f"{folder.path} is gone, and the cluster with it")


def _switch(folder: Folder, subnet: Subnet, machine: int) -> int:
    """The switch, with the head's own address, and the cable to this machine's namespace."""
    name = interface(folder.path)
    veth.disable_ipv6()
    with IPRoute() as netlink:
        _up(netlink, "lo")
        switch = veth.bridge(netlink, "switch")
        netlink.addr("add", index=switch, address=str(subnet[HEAD_ADDRESS]), prefixlen=24)
        login = veth.pair(netlink, "login", name, machine)
        veth.plug(netlink, login, switch)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    kernel.enter_network(machine)
    try:
        with IPRoute() as netlink:
            index = veth.index_of(netlink, name)
            netlink.addr("add", index=index, address=str(subnet[LOGIN_ADDRESS]), prefixlen=24)
            _up(netlink, name)
    finally:
        kernel.enter_network(here)
        os.close(here)
    return switch


def _become_node(
    folder: Folder,
    outside: int,
    head: int,
    name: str,
    where: dict[str, str],
    shape: Shape,
    shared: Sequence[Path],
) -> None:
    """Make the node's namespaces around this process, and leave its process 1 behind."""
    kernel.unshare(_OWN | kernel.CLONE_NEWPID)
    socket.sethostname(name)
    veth.disable_ipv6()
    with IPRoute() as netlink:
        own = veth.pair(netlink, INTERFACE, name, head)
        netlink.addr("add", index=own, address=where[name], prefixlen=24)
        veth.limit(netlink, own, shape.rate)
        _up(netlink, INTERFACE)
        _up(netlink, "lo")
    os.close(head)
    kernel.own_folder(Path("/tmp"), shared)
    kernel.own_folder(Path("/dev/shm"))
    if os.fork() != 0:
        return
    kernel.mount("proc", "/proc")
    os.setsid()
    write_pid_file(folder.pid_file(name), outside)
    os.mkdir(SPOOL, 0o755)
    for number in range(shape.gpus):
        file = Path(f"{GPU}{number}")
        file.touch()
        kernel.bind("/dev/null", file)  # slurmd wants a device
    _wait_for("slurmctld", lambda: _listens(where[HEAD]))
    _start(folder, outside, f"{name}.slurmd", ["slurmd", "-D"], folder.log(name))
    while True:
        _reap()
        time.sleep(0.01)  # without children, waitpid returns at once


def _start(
    folder: Folder, outside: int, name: str, words: Sequence[str], log: Path | None = None
) -> None:
    """Start a daemon of the cluster, with a pid file and a log of its own."""
    if os.fork() != 0:
        return
    try:
        os.setsid()
        file = os.open(log or folder.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        for number in (signal.SIGINT, signal.SIGPIPE):  # Python changed them
            signal.signal(number, signal.SIG_DFL)
        write_pid_file(folder.pid_file(name), outside)
        os.execvp(words[0], list(words))
    except BaseException as error:
        print(f"{words[0]}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(127)


def _reap(options: int = 0) -> None:
    """Collect a child that has ended, as a process 1 has to."""
    with suppress(ChildProcessError):
        os.waitpid(-1, options)


def _up(netlink: IPRoute, name: str) -> None:
    netlink.link("set", index=veth.index_of(netlink, name), state="up")


def _listens(address: str) -> bool:
    try:
        socket.create_connection((address, CONTROLLER_PORT), timeout=1).close()
    except OSError:
        return False
    return True


def _wait_for(what: str, there: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE
    while not there():
        if time.monotonic() > limit:
            sys.exit(f"waited {PATIENCE:g} s for {what} in vain")
        time.sleep(0.02)


if __name__ == "__main__":
    _, its_path, its_proc, its_network, *its_shared = sys.argv
    main(its_path, its_proc, its_network, its_shared)
