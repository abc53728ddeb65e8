"""The server that `hpml.cli.hand_over` hands commands to: each runs in a fork of this process.

PyTorch is imported once, and every command finds it; what a command does to its process is gone
with the fork. Of the ranks' warm server each has a fork of its own too.

The server ends when nothing runs and one of these is so: nothing was asked for in IDLE seconds; its
socket is gone (a newer server's start takes it away, or the folder was deleted); sources of this
package have changed; every session that asked is over, as after a logout.
"""

import atexit
import contextlib
import io
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

from hpml.cli import hand_over
from hpml.ranks import processes

IDLE = 600.0  # seconds without a command after which the server ends
ALONE = 30.0  # the same, when every session that asked is over
LOOK = 2.0  # seconds between two looks whether it is to end
LOOK_AT_SOURCES = 30.0
PATIENCE = 10.0  # seconds that an interrupted command has to end by itself
RECEIVE = 5.0  # seconds in which a request must be here whole


@dataclass
class Command:
    """A command at work, in the process `pid`, for the client at the other end."""

    pid: int
    connection: socket.socket
    kill_at: float | None = None  # when it is killed, since its client is gone


def main() -> None:
    listener, name = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    sources = hand_over.sources()
    threads = _prepare()
    Server(listener, name, sources, threads).serve()


def _prepare() -> int:
    """Import what every check needs. Returns how many threads PyTorch would have."""
    import torch

    from hpml.network import emulation
    from hpml.ranks.server import server

    threads = torch.get_num_threads()
    server.prepare("torch")
    emulation.own_namespaces_refused()  # found out here, for all commands

    import hpml.checks.render
    import hpml.checks.run_check
    import hpml.cli.watch_command
    import hpml.course.progress
    from hpml.ranks.parent import warm_fork

    assert hpml.checks.render
    assert warm_fork
    return threads


class Server:
    """Accepts commands on `listener`, whose socket is called `name`, until there is no more need.

    `sources` are those that were imported, `threads` is what PyTorch has in each command.
    """

    def __init__(self, listener: socket.socket, name: str, sources: str, threads: int) -> None:
        self._listener, self._name = listener, name
        self._sources, self._threads = sources, threads
        self._folder = os.path.join(hand_over.folder(), "")
        self._inode = self._inode_now()
        self._commands: list[Command] = []
        self._sessions: set[int] = set()
        self._asked = self._looked_at_sources = time.monotonic()
        self._ahead = _checks_to_import()
        self._wake_in, self._wake_out = os.pipe()

    def serve(self) -> None:
        for end in (self._wake_in, self._wake_out):
            os.set_blocking(end, False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_out)
        while self._commands or not self._is_over():
            connections = [c.connection for c in self._commands if c.kill_at is None]
            # With nothing to do, import the checks, one at a time
            ahead = bool(self._ahead) and not self._commands and self._sessions
            watched: list[Any] = [self._listener, self._wake_in, *connections]
            readable, _, _ = select.select(watched, [], [], 0 if ahead else LOOK)
            if self._wake_in in readable:
                processes.drain(self._wake_in)
            self._reap()
            for command in self._commands:
                if command.connection in readable:
                    self._listen_to(command)
            self._kill_overdue()
            if self._listener in readable:
                self._accept()
            elif ahead and not readable:
                _import_ahead(self._ahead.pop(0))
        with contextlib.suppress(OSError):
            if self._inode_now() == self._inode:
                os.unlink(self._folder + self._name)

    def _inode_now(self) -> int | None:
        try:
            return os.stat(self._folder + self._name).st_ino
        except OSError:
            return None

    def _is_over(self) -> bool:
        now = time.monotonic()
        over = bool(self._sessions) and not any(map(_is_there, self._sessions))
        if now > self._asked + (ALONE if over else IDLE) or self._inode_now() != self._inode:
            return True
        if now > self._looked_at_sources + LOOK_AT_SOURCES:
            self._looked_at_sources = now
            try:
                return hand_over.sources() != self._sources
            except OSError:  # a file went meanwhile
                return True
        return False

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(RECEIVE)
        try:
            request, fds = _receive(connection)
        except (OSError, ValueError):
            connection.close()
            return
        self._note_session(connection)
        self._asked = time.monotonic()
        pid = os.fork()
        if pid == 0:
            others = [self._listener, *(command.connection for command in self._commands)]
            for other in others:
                other.close()
            os.close(self._wake_in)
            os.close(self._wake_out)
            _run(connection, request, fds, self._threads)
        for fd in fds:
            os.close(fd)
        connection.settimeout(None)
        self._commands.append(Command(pid, connection))

    def _note_session(self, connection: socket.socket) -> None:
        credentials = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
        )
        pid, _, _ = struct.unpack("3i", credentials)
        with contextlib.suppress(OSError):
            if session := os.getsid(pid):  # 0 where it is in another PID namespace
                self._sessions.add(session)

    def _listen_to(self, command: Command) -> None:
        try:
            data = command.connection.recv(16)
        except OSError:
            data = b""
        with contextlib.suppress(ProcessLookupError):
            os.kill(command.pid, signal.SIGINT)
        if not data:  # the client is gone
            command.kill_at = time.monotonic() + PATIENCE

    def _kill_overdue(self) -> None:
        for command in self._commands:
            if command.kill_at is not None and time.monotonic() > command.kill_at:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(command.pid, signal.SIGKILL)

    def _reap(self) -> None:
        for command in list(self._commands):
            pid, _ = os.waitpid(command.pid, os.WNOHANG)
            if pid:
                command.connection.close()
                self._commands.remove(command)
                self._asked = time.monotonic()


def _is_there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def _checks_to_import() -> list[str]:
    from hpml.checks import ids

    return list(ids())


def _import_ahead(exercise: str) -> None:
    """Import a check, so that no command has to. What is wrong with it is reported by a command."""
    from hpml.checks import find

    with contextlib.suppress(Exception):
        find(exercise)


def _receive(connection: socket.socket) -> tuple[dict, list[int]]:
    """A request, and the client's stdin, stdout and stderr. OSError or ValueError without one."""
    head, fds, _, _ = socket.recv_fds(connection, 12, 3)
    try:
        while len(head) < 12:
            more = connection.recv(12 - len(head))
            if not more:
                raise ValueError("no request")
            head += more
        body, length = bytearray(), int(head)
        while len(body) < length:
            more = connection.recv(min(length - len(body), 2**16))
            if not more:
                raise ValueError("half a request")
            body += more
        if len(fds) != 3:
            raise ValueError("no files")
        return json.loads(bytes(body)), fds
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


def _run(connection: socket.socket, request: dict, fds: Iterable[int], threads: int) -> NoReturn:
    """In a fork: the command, as if it had been started in the client's place."""
    code = 70
    try:
        _become_client(request, fds)
        from hpml.ranks.parent import warm_fork

        warm_fork.start()  # before there are other threads
        _as_a_new_process(threads)
        connection.settimeout(None)
        connection.sendall(hand_over.STARTED)
        code = _exit_code(request["arguments"])
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client goes now
        with contextlib.suppress(OSError):
            connection.sendall(b"%d\n" % code)
            connection.close()
        atexit._run_exitfuncs()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _become_client(request: dict, fds: Iterable[int]) -> None:
    """Take the client's folder, environment, stdin, stdout and stderr."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.chdir(request["folder"])
    os.umask(request["umask"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    sys.argv = ["hpml", *request["arguments"]]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), sys.stdin.encoding)
    sys.stdout, sys.stderr = (
        _stream(number, old) for number, old in ((1, sys.stdout), (2, sys.stderr))
    )


def _stream(number: int, old: TextIO) -> io.TextIOWrapper:
    """The file of that number as a text stream, whose lines are written at once."""
    buffer = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(buffer, old.encoding, old.errors, line_buffering=True)


def _as_a_new_process(threads: int) -> None:
    """Undo what each fork of one process would have in common: numbers drawn, and one thread."""
    import numpy as np
    import torch

    np.random.seed()
    torch.seed()
    torch.set_num_threads(threads)


def _exit_code(arguments: list[str]) -> int:
    from hpml import cli

    try:
        cli.main(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BrokenPipeError:
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code
