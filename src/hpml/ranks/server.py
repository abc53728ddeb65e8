"""The warm server: a process that has imported torch once, and forks ranks from there.

    parent ── control socket ──► server ── fork ──► supervisor (one per launch) ── fork ──► ranks

Where a launch is proxied, the supervisor first forks a proxy for each rank (`hpml.ranks.proxy`), to
which the rank's channel and network then belong.

Where ranks talk through Horovod, the server has imported that as well, and the supervisor forks the
store at which they meet.

The supervisor reaps its ranks, reports to the parent how each ended, and ends them all when the
parent asks or is gone. It is a subreaper: whatever a rank starts, in a session of its own or
not, comes back to it and is killed with the rest. If the supervisor itself is killed, the server,
which is a subreaper too, does the same.

In a sandbox each rank is behind a wall of its own (`hpml.ranks.rank_wall`), and nothing that an
answer writes outlives its launch, except in a folder that the launch was told to keep.
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import psutil

from hpml.network.emulation import drop_privileges
from hpml.ranks import flavour, pages, rank_wall, rendezvous
from hpml.ranks.killing import Writings
from hpml.ranks.rank_wall import RankWall

MAX_RANKS = 64  # their descriptors travel in one message, which carries 253 at most
PER_RANK = 3  # descriptors: its channel, its output, its stacks
SANDBOXED = "sandboxed"  # argument of a server in a sandbox that is one submission's
MEETING = "meet"  # folder in a launch's own, which its ranks have in common


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    prepare(sys.argv[2])
    serve(control, RankWall() if sys.argv[3:] == [SANDBOXED] else None)


def prepare(name: flavour.Flavour) -> None:
    """Import what ranks of that flavour use, and arrange this process's memory for being forked."""
    gc.disable()  # imported objects stay; scanning them takes 15 % of the time
    _import_what_ranks_use()
    _use_it_once()
    flavour.preload(name)
    # What is there now is never collected again: the ranks then share its pages for good.
    gc.freeze()
    gc.enable()
    pages.collapse()


def serve(control: socket.socket, around: RankWall | None = None) -> None:
    """Fork a supervisor for each launch that `control` asks for, until its other end is closed.

    `around` is the wall around each rank; None outside a sandbox.
    """
    become_subreaper()
    allow_looking_inside(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_in, False)
    os.set_blocking(wake_out, False)
    signal.set_wakeup_fd(wake_out)
    control.sendall(b"ready\n")
    supervisors: set[int] = set()
    while True:
        readable, _, _ = select.select([control, wake_in], [], [])
        if wake_in in readable:
            _drain(wake_in)
            _reap_supervisors(supervisors)
        if control in readable:
            message, fds, _, _ = socket.recv_fds(control, 1, PER_RANK * MAX_RANKS + 1)
            if not message:
                break
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for fd in (control.fileno(), wake_in, wake_out):
                    os.close(fd)
                control.detach()
                _supervise(socket.socket(fileno=fds[0]), fds[1:], around)
            supervisors.add(pid)
            for fd in fds:
                os.close(fd)
    _wait_then_kill(supervisors)


def _import_what_ranks_use() -> None:
    """Everything a rank would otherwise import after its fork, lazily imported parts included."""
    import encodings.idna  # Gloo's rendezvous over TCP looks up a host name

    import torch._dynamo  # optimizers and DistributedDataParallel import it at first use
    import torch.distributed.nn
    import torch.nn.functional
    import torch.nn.parallel
    import torch.optim
    import torch.profiler._cupti_monitor  # optimizers
    import torch.utils.data
    import torch.utils.data.distributed

    import hpml.ranks.rank
    from hpml.ranks import dispatcher

    with contextlib.suppress(ImportError):  # not on macOS
        import pyroute2

        assert pyroute2
    dispatcher.prepare()
    assert encodings.idna
    assert hpml.ranks.rank
    assert torch


def _use_it_once() -> None:
    """Set up, before there are ranks, what a first training step sets up in 10 ms, such as machine
    code for a convolution.

    No backward: it asks for devices, which a process that is forked later must not have done. One
    thread, since threads do not survive a fork.
    """
    import torch
    from torch import nn

    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(torch.ones(2, 3, 3, 3)), torch.tensor([0, 1]))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()


def become_subreaper() -> None:
    if sys.platform == "linux":
        pr_set_child_subreaper = 36
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def die_with_parent() -> None:
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, int(signal.SIGKILL), 0, 0, 0)


def allow_looking_inside(allowed: bool) -> None:
    """Whether other processes of this user may read and change this one's memory and descriptors.

    Ranks run as the same user as the server and the supervisors, which must stay out of their
    reach: see "dumpable" in prctl(2) and ptrace(2).
    """
    if sys.platform == "linux":
        pr_set_dumpable = 4
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_dumpable, int(allowed), 0, 0, 0)


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        return


def _reap_supervisors(supervisors: set[int]) -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            break
        supervisors.discard(pid)
    # Children that are no supervisors are orphans of one that was killed.
    for child in psutil.Process().children():
        if child.pid not in supervisors:
            _kill(child)


def _wait_then_kill(supervisors: set[int]) -> None:
    """The parent is gone: supervisors notice by themselves; what is still there later is killed."""
    deadline = time.monotonic() + 5
    while supervisors and time.monotonic() < deadline:
        _reap_supervisors(supervisors)
        time.sleep(0.01)
    kill_descendants()


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def kill_descendants(limit: float = 5.0) -> bool:
    """Kill and reap every descendant of this process, those in other sessions too.

    Returns whether all were gone within `limit` seconds.
    """
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for child in psutil.Process().children(recursive=True):
            _kill(child)
        if _all_reaped(deadline=time.monotonic() + 0.01):
            return True
    return False


def _all_reaped(deadline: float) -> bool:
    """Reap what has ended; whether no child is left by then. Orphans of a child that ended count:
    the kernel hands them over before its end can be seen."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)


def _supervise(control: socket.socket, fds: list[int], around: RankWall | None) -> None:
    """Fork the ranks, report their ends, end them. Never returns."""
    try:
        os.setsid()
        become_subreaper()
        die_with_parent()
        lines = control.makefile("r")
        header = json.loads(lines.readline() or "{}")
        scratch = header.get("scratch", "")
        world = len(fds) // PER_RANK
        kept = header["cwd"] if header["kept"] else None
        apart = around is not None and around.disk is not None
        if around is not None:
            rank_wall.sweep(around, kept)
        os.makedirs(os.path.join(scratch, MEETING), mode=0o700)
        if kept is not None or not apart:
            os.makedirs(header["cwd"], exist_ok=True)
        proxied = header["proxied"]
        meeting = [] if proxied else [os.path.join(scratch, MEETING)]  # proxies need none
        shared = [*meeting, *([kept] if kept else [])]
        meets = header.get("rendezvous", False)
        network, listeners = _network(header.get("link"), world, control, meets, apart)
        wake_in, wake_out = os.pipe()
        os.set_blocking(wake_in, False)
        os.set_blocking(wake_out, False)
        signal.set_wakeup_fd(wake_out)
        keep_out = [*fds, control.fileno(), wake_in, wake_out]
        store = _fork_store(listeners, keep_out, apart) if listeners else None
        proxies, betweens = _fork_proxies(fds, keep_out, network) if proxied else ({}, [])
        kill = header.get("kill")
        writings = _watch(header["cwd"], kill["folder"]) if kill else None
        if writings is not None:
            keep_out.append(writings.fileno())  # a rank could take its events
        pids: dict[int, int] = {}  # of ranks not yet reaped
        namespaces = rank_wall.ProcessNamespaces() if apart else None
        for rank in range(world):
            own = fds[PER_RANK * rank :][:PER_RANK]
            meet = _where(listeners[rank % len(listeners)]) if listeners else {}
            if namespaces is not None:
                namespaces.make()
            pid = os.fork()
            if pid == 0:
                shut = [*keep_out, *(listener.detach() for listener in listeners)]
                if namespaces is not None:
                    namespaces.close()
                enclose = (
                    drop_privileges
                    if around is None
                    else partial(rank_wall.close, around.share(world), shared, header["cwd"])
                )
                if proxied:
                    enclose = partial(_leave_network, network, apart, enclose)
                    _become_rank(own, shut, None, rank, meet, enclose, betweens)
                _become_rank(own, shut, network, rank, meet, enclose)
            pids[pid] = rank
            if namespaces is not None:
                namespaces.come_back()
        for between in betweens:
            between.leave()
        for fd in fds:
            os.close(fd)
        for listener in listeners:
            listener.close()
        _tell(control, {"pids": list(pids), "proxies": list(proxies)})
        while True:
            watched = [] if writings is None else [writings]
            readable, _, _ = select.select([control, wake_in, *watched], [], [])
            if writings in readable and (
                writings.look() >= kill["nth"] or kill["file"] in writings.written
            ):
                firsts = namespaces.first if namespaces is not None else []
                _kill_rank(kill["rank"], pids, firsts)
                _tell(control, {"killed": kill["rank"]})
                writings.close()
                writings = None
            if wake_in in readable:
                _drain(wake_in)
                _report_ends(control, pids, proxies)
            if control in readable:  # a message from the parent, or its end: both mean stop
                break
        firsts = namespaces.first if namespaces is not None else []
        for pid in (*pids, *proxies, *firsts):  # the usual case: nothing but those
            with contextlib.suppress(ProcessLookupError):  # one that was to be killed is reaped
                os.kill(pid, signal.SIGKILL)
        if store is not None:
            with contextlib.suppress(ProcessLookupError):  # a rank may have killed it
                os.kill(store, signal.SIGKILL)
        gone = _all_reaped(deadline=time.monotonic() + 0.05) or kill_descendants()
        if network is not None:
            _tell(control, {"traffic": network.traffic()})
        shutil.rmtree(scratch, ignore_errors=True)
        _tell(control, {"gone": gone})
    finally:
        os._exit(0)


def _watch(cwd: str, folder: str) -> Writings | None:
    try:
        return Writings(os.path.join(cwd, folder))
    except (OSError, AttributeError):  # it is not there, or this is not Linux
        return None


def _kill_rank(rank: int, pids: dict[int, int], firsts: list[int]) -> None:
    """Kill it, and what it has forked where it has a process namespace."""
    for pid in (pid for pid, of in pids.items() if of == rank):
        os.kill(pid, signal.SIGKILL)
    for first in firsts[rank : rank + 1]:
        os.kill(first, signal.SIGKILL)


def _network(
    link: str | None, world_size: int, control: socket.socket, meets: bool, apart: bool
) -> "tuple[emulation.Network | None, list[socket.socket]]":  # noqa: F821
    """The network that the launch asks for; None where it asks for none, or cannot have it.

    With the sockets for the ranks' rendezvous, if `meets`: one on each rank's network.
    """
    if link is None:
        if apart:
            rank_wall.own_network()
        return None, [rendezvous.listen()] if meets else []
    from hpml.network import emulation
    from hpml.network.link import parse_link

    allow_looking_inside(True)  # else the kernel does not let it map users; no rank is there yet
    try:
        built = emulation.build(parse_link(link, world_size), world_size, privileged=apart)
        listeners = built.on_each(rendezvous.listen) if meets else []
    except emulation.NoNetwork as error:
        _tell(control, {"no_link": str(error)})
        return None, [rendezvous.listen()] if meets else []
    finally:
        allow_looking_inside(False)
    die_with_parent()  # the kernel forgets it when a process changes its user namespace
    return built, listeners


def _fork_store(listeners: list[socket.socket], keep_out: list[int], apart: bool) -> int:
    """Fork a process that serves the ranks' rendezvous; returns its pid.

    Not this one: the supervisor, which has rights in its sandbox if ranks are `apart`, must not
    parse what they send.
    """
    pid = os.fork()
    if pid == 0:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent()
            for fd in keep_out:
                os.close(fd)
            if apart:
                drop_privileges()
            rendezvous.run(listeners)
        finally:
            os._exit(70)
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
    network: "emulation.Network | None",  # noqa: F821
) -> "tuple[dict[int, int], list[proxy.Between]]":  # noqa: F821
    """Fork a proxy for each rank: their ranks by pid, and what each has in common with its rank."""
    from hpml.ranks import proxy

    betweens = [proxy.Between() for _ in range(len(fds) // PER_RANK)]
    store = proxy.meeting_place()
    pids = {}
    for rank, between in enumerate(betweens):
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
                for other in (*betweens[:rank], *betweens[rank + 1 :]):
                    other.leave()
                if network is not None:
                    network.enter(rank)
                drop_privileges()
                die_with_parent()
                environment = {} if network is None else network.environment
                proxy.run(socket.socket(fileno=channel), between, store, environment)
            finally:
                os._exit(70)
        pids[pid] = rank
    if store is not None:
        os.close(store)
    return pids, betweens


def _report_ends(control: socket.socket, pids: dict[int, int], proxies: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        status = os.waitstatus_to_exitcode(status)
        if pid in pids:
            _tell(control, {"rank": pids.pop(pid), "status": status})
        elif pid in proxies:  # a rank without its proxy can do nothing more
            rank = proxies.pop(pid)
            for left in [pid for pid, of in pids.items() if of == rank]:
                if status < 0:  # Gloo's abort is as the rank's own
                    _tell(control, {"rank": pids.pop(left), "status": status})
                os.kill(left, signal.SIGKILL)


def _tell(control: socket.socket, message: dict) -> None:
    try:
        control.sendall(json.dumps(message).encode() + b"\n")
    except OSError:  # the parent is gone; ending is all that is left to do
        return


def _become_rank(
    own: list[int],
    keep_out: list[int],
    network: "emulation.Network | None",  # noqa: F821
    number: int,
    meet: dict[str, str],
    enclose: Callable[[], None],
    betweens: "Sequence[proxy.Between]" = (),  # noqa: F821
) -> None:
    """The forked rank. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent()
        allow_looking_inside(True)  # the parent looks at what a rank waits for
        for fd in keep_out:
            if fd not in own:
                os.close(fd)
        from hpml.ranks import rank

        environment = dict(meet)
        if network is not None:
            network.enter(number)
            environment |= network.environment
        enclose()
        die_with_parent()  # the kernel forgets it when a process changes its user namespace
        channel, output, stacks = own
        if not betweens:
            rank.run(socket.socket(fileno=channel), output, stacks, environment)
        os.close(channel)  # its proxy's
        for other in (*betweens[:number], *betweens[number + 1 :]):
            other.leave()
        sock, ends = betweens[number].for_rank()
        rank.run(sock, output, stacks, environment, (ends, betweens[number].arena))
    finally:
        os._exit(70)


def _leave_network(
    network: "emulation.Network | None",  # noqa: F821
    apart: bool,
    enclose: Callable[[], None],
) -> None:
    """Move this process, a rank just forked, to a network with nothing in it, where namespaces can
    be had; then `enclose` it."""
    from hpml.network import emulation

    with contextlib.suppress(OSError):
        emulation.enter_nothing(network, privileged=apart or network is not None)
    enclose()


if __name__ == "__main__":
    main()
