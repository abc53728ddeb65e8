"""Forks the ranks of a launch, and what they need besides.

Where a launch is proxied, a proxy for each rank comes first (`hpml.ranks.proxy`), to which the
rank's channel and network then belong. Where ranks talk through Horovod, so does the store at which
they meet.

All ranks begin together (`hpml.ranks.supervisor.start_barrier`): what fails before is not the fault
of an answer.

In a sandbox each rank is behind a wall of its own (`hpml.ranks.supervisor.rank_wall`).
"""

import contextlib
import errno
import json
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from hpml.answer.enforce import files_to_cover
from hpml.network import emulation
from hpml.network.emulation import drop_privileges
from hpml.network.link import parse_link
from hpml.ranks.inotify import CannotWatch
from hpml.ranks.killing import Writings
from hpml.ranks.memory_limit import Limit
from hpml.ranks.processes import allow_looking_inside, die_with_parent
from hpml.ranks.proxy import rendezvous
from hpml.ranks.proxy.rank_proxy_link import RankProxyLink, meeting_place
from hpml.ranks.rank.gate import Gate
from hpml.ranks.rank.live import Page
from hpml.ranks.supervisor import rank_wall, resident
from hpml.ranks.supervisor.kernel_counts import Opens
from hpml.ranks.supervisor.rank_wall import RankWall
from hpml.ranks.supervisor.start_barrier import StartBarrier

MAX_RANKS = 64  # their descriptors travel in one message, which carries 253 at most
PER_RANK = 3  # descriptors: its channel, its output, its stacks
FAULT = 70  # exit code of a process that failed before or beside an answer (EX_SOFTWARE)
WATCH_WAITS = (0.05, 0.2, 0.5, 1.0)  # seconds until a watch is set up again
MEETING = "meet"  # folder in a launch's own, which its ranks have in common

Watching = TypeVar("Watching", Writings, Opens)


@dataclass
class Launch:
    """What the supervisor holds of its launch."""

    control: socket.socket
    header: Mapping[str, Any]
    apart: bool  # each rank has namespaces of its own
    network: emulation.Network | None
    wake: int  # can be read when a child has ended
    barrier: StartBarrier
    writings: Writings | None
    proxies: dict[int, int]  # their ranks by pid, until they are reaped
    store: int | None  # the pid of the ranks' rendezvous
    pids: dict[int, int] = field(default_factory=dict)  # of ranks, likewise
    namespaces: rank_wall.ProcessNamespaces | None = None
    counts: dict[int, resident.Count] = field(default_factory=dict)  # of ranks' memory, by rank
    gates: dict[int, Gate] = field(default_factory=dict)  # that are shut, by rank
    limits: dict[int, Limit] = field(default_factory=dict)  # of ranks' memory, likewise
    pages: dict[int, Page] = field(default_factory=dict)  # of ranks' tensors, likewise
    paused: bool = False  # the ranks stay, and run nothing
    opens: Opens | None = None  # of files in a folder that is kept, where the launch looks

    @property
    def firsts(self) -> list[int]:
        """The first process of each rank's namespace, where it has one."""
        return self.namespaces.first if self.namespaces is not None else []


def fork_all(
    control: socket.socket, fds: list[int], header: Mapping[str, Any], around: RankWall | None
) -> Launch:
    """Fork the ranks of a launch, and what they need besides. Closes `fds`."""
    world = len(fds) // PER_RANK
    apart = around is not None and around.disk is not None
    shared = _make_folders(header, around, apart)
    covered = files_to_cover(header["refused"]) if apart else []
    network, listeners = _network(header, world, control, apart)
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_in, False)
    os.set_blocking(wake_out, False)
    signal.set_wakeup_fd(wake_out)
    keep_out = [*fds, control.fileno(), wake_in, wake_out]
    store = _fork_store(listeners, keep_out) if listeners else None
    proxied = header["proxied"]
    proxies, links = _fork_proxies(fds, keep_out, network) if proxied else ({}, [])
    writings = _watch(control, header) if header["kill"] else None
    if writings is not None:
        keep_out.append(writings.fileno())  # a rank could take its events
    opens = _watch_opens(header)
    if opens is not None:
        keep_out.append(opens.fileno())
    counts: dict[int, resident.Count] = {}
    gates = [Gate() for _ in range(world)] if header["count_memory"] else []

    def count() -> None:
        for each in counts.values():
            each.begin()

    barrier = StartBarrier(world, count)
    launch = Launch(control, header, apart, network, wake_in, barrier, writings, proxies, store)
    launch.counts, launch.gates = counts, dict(enumerate(gates))
    launch.opens = opens
    launch.namespaces = rank_wall.ProcessNamespaces() if apart else None
    for rank in range(world):
        if header["live"]:
            launch.pages[rank] = Page()
        own = fds[PER_RANK * rank :][:PER_RANK]
        meet = _where(listeners[rank % len(listeners)]) if listeners else {}
        if launch.namespaces is not None:
            launch.namespaces.make()
        pid = os.fork()
        if pid == 0:
            shut = [*keep_out, *(listener.detach() for listener in listeners)]
            if launch.namespaces is not None:
                launch.namespaces.close()
            enclose = (
                drop_privileges
                if around is None
                else partial(
                    rank_wall.close,
                    around.share(world),
                    shared,
                    header["cwd"],
                    proxied=header["proxied"],
                    covered=covered,
                    programs=header["programs"],
                )
            )
            if proxied:
                enclose = partial(_leave_network, network, apart, enclose)
            enter = None if proxied else network
            _become_rank(own, shut, enter, rank, meet, enclose, barrier, links, gates, launch.pages)
        launch.pids[pid] = rank
        counts[rank] = resident.Count(pid)
        if launch.namespaces is not None:
            launch.namespaces.come_back()
    for link in links:
        link.leave()
    for gate in gates:
        gate.keep_outside()
    for fd in fds:
        os.close(fd)
    for listener in listeners:
        listener.close()
    return launch


def _make_folders(header: Mapping[str, Any], around: RankWall | None, apart: bool) -> list[str]:
    """Make those of a launch; returns the ones that ranks have in common."""
    kept = header["cwd"] if header["kept"] else None
    if around is not None:
        rank_wall.sweep(around, kept)
    meeting = os.path.join(header["scratch"], MEETING)
    os.makedirs(meeting, mode=0o700)
    if kept is not None or not apart:
        os.makedirs(header["cwd"], exist_ok=True)
    return [*([] if header["proxied"] else [meeting]), *([kept] if kept else [])]  # proxies: none


def _watch(control: socket.socket, header: Mapping[str, Any]) -> Writings | None:
    kill = header["kill"]
    folder = os.path.join(header["cwd"], kill["folder"])
    try:
        return _patiently(partial(Writings, folder, kill["file"], kill["replaced"]))
    except CannotWatch as error:
        tell(control, {"no_kill": error.strerror or str(error)})
    except OSError:  # it is not there
        pass
    return None


def _watch_opens(header: Mapping[str, Any]) -> Opens | None:
    if header["opens"] and header["kept"]:
        with contextlib.suppress(OSError):  # this machine cannot watch one more folder
            return _patiently(partial(Opens, header["cwd"], header["opens"]))
    return None


def _patiently(watch: Callable[[], Watching]) -> Watching:
    """What `watch` makes; where the machine can watch no more, once more when others have ended."""
    for wait in WATCH_WAITS:
        try:
            return watch()
        except CannotWatch as error:
            if error.errno in (None, errno.ENOSYS):  # it never can
                raise
        time.sleep(wait)
    return watch()


def _network(
    header: Mapping[str, Any], world: int, control: socket.socket, apart: bool
) -> tuple[emulation.Network | None, list[socket.socket]]:
    """The network that the launch asks for; None where it asks for none, or cannot have it.

    With the sockets for the ranks' rendezvous, if there is to be one: one on each rank's network.
    """
    link, meets = header["link"], header["rendezvous"]
    if link is None and not apart and not header["alone"]:
        return None, [rendezvous.listen()] if meets else []

    allow_looking_inside(True)  # else the kernel does not let it map users; no rank is there yet
    built, listeners = None, []
    try:
        if link is None:
            with contextlib.nullcontext() if apart else contextlib.suppress(OSError):
                emulation.enter_loopback(privileged=apart)
        else:
            built = emulation.build(parse_link(link, world), world, privileged=apart)
            listeners = built.on_each(rendezvous.listen) if meets else []
    except emulation.NoNetwork as error:
        tell(control, {"no_link": str(error)})
    finally:
        allow_looking_inside(False)
    die_with_parent()  # the kernel forgets it when a process changes its user namespace
    return built, listeners or ([rendezvous.listen()] if meets else [])


def _fork_store(listeners: list[socket.socket], keep_out: list[int]) -> int:
    """Fork a process that serves the ranks' rendezvous; returns its pid.

    Not this one: the supervisor, which may have rights in its sandbox and over the ranks' links,
    must not parse what they send.
    """
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent()
            for fd in keep_out:
                os.close(fd)
            drop_privileges()
            rendezvous.run(listeners)
        finally:
            os._exit(FAULT)
    return pid


def _where(listener: socket.socket) -> dict[str, str]:
    """Horovod's variables for the address where its ranks meet."""
    address, port = listener.getsockname()
    return {
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
    }


def _fork_proxies(
    fds: list[int],
    keep_out: list[int],
    network: emulation.Network | None,
) -> tuple[dict[int, int], list[RankProxyLink]]:
    """Fork a proxy for each rank: their ranks by pid, and what each has in common with its rank."""
    from hpml.ranks.proxy import proxy

    links = [RankProxyLink() for _ in range(len(fds) // PER_RANK)]
    store = meeting_place()
    pids = {}
    for rank, link in enumerate(links):
        pid = os.fork()
        if pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                channel, output, _ = fds[PER_RANK * rank :][:PER_RANK]
                os.dup2(output, 2)  # what Gloo says of the rank's calls
                for fd in keep_out:
                    if fd != channel:
                        os.close(fd)
                for other in (*links[:rank], *links[rank + 1 :]):
                    other.leave()
                if network is not None:
                    network.enter(rank)
                drop_privileges()
                die_with_parent()
                environment = {} if network is None else network.environment
                proxy.run(socket.socket(fileno=channel), link, store, environment)
                os._exit(0)
            except ConnectionError:  # its rank is gone, or the launch has ended
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(FAULT)
        pids[pid] = rank
    if store is not None:
        os.close(store)
    return pids, links


def tell(control: socket.socket, message: dict) -> None:
    try:
        control.sendall(json.dumps(message).encode() + b"\n")
    except OSError:  # the parent is gone; ending is all that is left to do
        return


def _become_rank(
    own: list[int],
    keep_out: list[int],
    network: emulation.Network | None,
    number: int,
    meet: dict[str, str],
    enclose: Callable[[], None],
    barrier: StartBarrier,
    links: Sequence[RankProxyLink],
    gates: Sequence[Gate],
    pages: Mapping[int, Page],
) -> None:
    """The forked rank. Never returns."""
    try:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent()
            allow_looking_inside(True)  # the parent looks at what a rank waits for
            for fd in keep_out:
                if fd not in own:
                    os.close(fd)
            from hpml.ranks.rank import rank

            environment = dict(meet)
            if network is not None:
                network.enter(number)
                environment |= network.environment
            enclose()
            die_with_parent()  # the kernel forgets it when a process changes its user namespace
            for other in (*gates[:number], *gates[number + 1 :]):
                other.leave()
            gate = gates[number] if gates else None
            if gate is not None:
                gate.keep_inside()
            channel, output, stacks = own
            proxy = None
            if links:
                os.close(channel)  # its proxy's
                for other in (*links[:number], *links[number + 1 :]):
                    other.leave()
                sock, ends = links[number].for_rank()
                proxy = (ends, links[number].arena)
            else:
                sock = socket.socket(fileno=channel)
        except Exception as error:
            barrier.refuse(number, error)
            return
        barrier.wait()
        rank.run(sock, output, stacks, environment, proxy, gate, pages.get(number))
    finally:
        os._exit(FAULT)


def _leave_network(
    network: emulation.Network | None,
    apart: bool,
    enclose: Callable[[], None],
) -> None:
    """Move this process, a rank just forked, to a network with nothing in it, where namespaces can
    be had; then `enclose` it. Raises OSError where a network was built, and it cannot leave it."""
    # Where there is a network, it could reach the others' links
    can_do_without = network is None and not apart
    with contextlib.suppress(OSError) if can_do_without else contextlib.nullcontext():
        emulation.enter_nothing(network, privileged=not can_do_without)
    enclose()
