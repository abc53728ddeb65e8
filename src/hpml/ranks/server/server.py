"""The warm server: a process that has imported torch once, and forks ranks from there.

    parent ── control socket ──► server ── fork ──► supervisor (one per launch) ── fork ──► ranks

Where ranks talk through Horovod, the server has imported that as well.

Server and supervisors are subreapers: whatever a rank starts, in a session of its own or not, comes
back to its supervisor and is killed with the rest. If the supervisor itself is killed, the server
does the same.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time
from typing import Any, cast

import psutil

from hpml.network import emulation
from hpml.ranks import flavour, processes
from hpml.ranks.server import pages
from hpml.ranks.supervisor.forking import MAX_RANKS, PER_RANK
from hpml.ranks.supervisor.rank_wall import RankWall
from hpml.ranks.supervisor.supervisor import supervise

SANDBOXED = "sandboxed"  # argument of a server in a sandbox that is one submission's


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    # Ctrl-C in a terminal goes to all of its processes; this one ends when its parent has ended.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare(cast(flavour.Flavour, sys.argv[2]))
    serve(control, RankWall() if sys.argv[3:] == [SANDBOXED] else None)


def prepare(name: flavour.Flavour) -> None:
    """Import what ranks of that flavour use, and arrange this process's memory for being forked."""
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
    processes.become_subreaper()
    if around is None or around.disk is None:
        emulation.own_namespaces_refused()  # found out here, for all launches
    processes.allow_looking_inside(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wake_in, wake_out = os.pipe()
    os.set_blocking(wake_in, False)
    os.set_blocking(wake_out, False)
    signal.set_wakeup_fd(wake_out)
    with contextlib.suppress(BrokenPipeError):  # its parent has ended meanwhile
        control.sendall(b"ready\n")
    supervisors: set[int] = set()
    while True:
        watched: list[Any] = [control, wake_in]
        readable, _, _ = select.select(watched, [], [])
        if wake_in in readable:
            processes.drain(wake_in)
            _reap_supervisors(supervisors)
        if control in readable:
            message, fds = _received(control)
            if not message:
                break
            for fd in fds:
                os.set_inheritable(fd, False)  # for what a supervisor executes
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                for fd in (control.fileno(), wake_in, wake_out):
                    os.close(fd)
                control.detach()
                supervise(socket.socket(fileno=fds[0]), fds[1:], around)
            supervisors.add(pid)
            for fd in fds:
                os.close(fd)
    _wait_then_kill(supervisors)


def _received(control: socket.socket) -> tuple[bytes, list[int]]:
    """A message with its files; empty where the other end is closed."""
    try:
        message, fds, _, _ = socket.recv_fds(control, 1, PER_RANK * MAX_RANKS + 1)
    except ConnectionResetError:  # it was closed with something unread, as our "ready"
        return b"", []
    return message, fds


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
    import torch.utils.serialization.config  # torch.save

    import hpml.ranks.proxy.proxy
    import hpml.ranks.rank.rank
    from hpml.ranks.rank import dispatcher

    with contextlib.suppress(ImportError):  # not on macOS
        import hpml.network.veth

        assert hpml.network.veth
    dispatcher.prepare()
    assert encodings.idna
    assert hpml.ranks.proxy.proxy
    assert hpml.ranks.rank.rank
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


def _reap_supervisors(supervisors: set[int]) -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            break
        supervisors.discard(pid)
    # Children that are not supervisors are orphans of one that was killed.
    for child in psutil.Process().children():
        if child.pid not in supervisors:
            processes.kill(child)


def _wait_then_kill(supervisors: set[int]) -> None:
    """The parent is gone: supervisors notice by themselves; what is still there later is killed."""
    deadline = time.monotonic() + 5
    while supervisors and time.monotonic() < deadline:
        _reap_supervisors(supervisors)
        time.sleep(0.01)
    processes.kill_descendants()


if __name__ == "__main__":
    main()
