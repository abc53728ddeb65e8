"""What warm servers are forked from, each into namespaces of its own: a process that only imports.

    grader ── control ──► bwrap ► template ── fork ──► warm server ► supervisor ► ranks
                                                       └ namespaces below the template's

To import torch takes 2 s of a processor, a fork with its namespaces 20 ms. The template itself
never reads a byte of an answer: it takes a socket from the grader and forks, and all that follows
happens in the child. A server that is forked from it can do it no harm: it sees other processes,
mounts and networks, has no rights over the template's, and shares no memory with it that either can
write to (see `_refuse_to_share`).

For each server, over the socket that comes with the request:

    child ─► its own pidfd       grader puts it into the control group of the sandbox
    child ◄─ a byte              child leaves its namespaces, and forks what is process 1 in the new
    child ─► that one's pidfd    child ends
    first ◄─ a byte              first closes the wall around itself and is the warm server
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import cast

from hpml.ranks import processes
from hpml.ranks.flavour import Flavour
from hpml.ranks.server import server
from hpml.ranks.supervisor import wall
from hpml.ranks.supervisor.rank_wall import RankWall

REQUEST = 2**14  # bytes at most


class Shares(RuntimeError):
    """This process holds memory or files that its forks would share and could write to."""


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    server.prepare(cast(Flavour, sys.argv[2]))
    processes.allow_looking_inside(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    _refuse_to_share(control.fileno())
    control.sendall(b"ready\n")
    while True:
        request, fds, _, _ = socket.recv_fds(control, REQUEST, 1)
        if not request:
            return
        if os.fork() == 0:
            control.close()
            _become_server(socket.socket(fileno=fds[0]), json.loads(request))
        os.close(fds[0])


def _refuse_to_share(control: int) -> None:
    """Raises Shares where a fork would have memory or open files in common with the next one."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.split()[1][1] == "w" and line.split()[1][3] == "s":
            raise Shares(line)
    descriptors = os.open("/proc/self/fd", os.O_RDONLY)
    try:
        open_ones = {int(name) for name in os.listdir(descriptors)} - {descriptors}
    finally:
        os.close(descriptors)
    null = os.stat(os.devnull).st_rdev
    for descriptor in open_ones - {control}:
        try:
            found = os.fstat(descriptor)
        except OSError:  # closed meanwhile
            continue
        if found.st_rdev != null:
            raise Shares(os.readlink(f"/proc/self/fd/{descriptor}"))


def _become_server(control: socket.socket, allowed: dict) -> None:
    """Never returns."""
    try:
        _send_pidfd(control, os.getpid())
        if not control.recv(1):
            return
        wall.leave()
        pid = os.fork()
        if pid:
            _send_pidfd(control, pid)
            os._exit(0)
        if control.recv(1):
            wall.close(allowed["disk"], allowed["limits"])
            server.serve(control, RankWall(allowed["disk"]))
    finally:
        os._exit(70)


def _send_pidfd(control: socket.socket, pid: int) -> None:
    pidfd = os.pidfd_open(pid)
    socket.send_fds(control, [b"p"], [pidfd])
    os.close(pidfd)
