"""A job step as the supervisor of a launch: srun, the agents' connections, what is passed on."""

import contextlib
import json
import os
import re
import secrets
import selectors
import socket
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from hpml.ranks.agent_connection import (
    CHANNEL,
    CONTROL,
    KINDS,
    OUTPUT,
    accept,
    bare,
    hear,
    listen,
    say,
)

PER_RANK = 3  # descriptors that a launch hands over: channel, output, stacks
PINGS = 7  # of which the quickest tells how the clocks differ
MOST_LINES = 100  # of srun's, the last ones
QUIET = 0.1  # seconds without anything from the ranks after which all that they printed is here
END_LIMIT = 8.0  # seconds for the step to end by itself; less than the launch waits
IMPORTING = 300.0  # seconds that the last agents may come after the first


class JobStep:
    """The supervisor's side of `control`, and of `fds`: three for each rank, which it closes.

    `start` starts an srun whose tasks come to that port with that key. `report` is told in a line
    what is waited for; `began` is called when the ranks begin.
    """

    def __init__(
        self,
        control: socket.socket,
        fds: list[int],
        start: Callable[[bytes, int], subprocess.Popen[bytes]],
        report: Callable[[str], None],
        began: Callable[[], None],
    ) -> None:
        self._control = control
        self._start, self._report, self._began = start, report, began
        self._world = len(fds) // PER_RANK
        self._fds = [fds[PER_RANK * r :][:PER_RANK] for r in range(self._world)]
        self._agents: dict[int, Connection] = {}
        self._hosts: dict[int, str] = {}
        self._ready: dict[int, dict[str, Any]] = {}
        self._begun = self._over = False
        self._lines: list[str] = []  # of srun's
        self._first: float | None = None  # when the first agent came
        self._selector = selectors.DefaultSelector()
        self._text = b""
        self._forked: set[int] = set()
        self._pauses_at: float | None = None
        self._open: set[int] = set()  # ranks whose output is still open

    def run(self) -> None:
        """Never raises: what fails is told to the launch."""
        key = secrets.token_bytes(32)
        srun: subprocess.Popen[bytes] | None = None
        try:
            with listen() as listener:
                lines = self._control.makefile("rb", 0)
                self._header = json.loads(lines.readline() or b"{}")
                srun = self._start(key, listener.getsockname()[1])
                assert srun.stdout is not None
                os.set_blocking(srun.stdout.fileno(), False)
                self._key, self._srun = key, srun
                self._watch(self._control, self._hear_launch)
                self._watch(srun.stdout, partial(self._hear_srun, srun.stdout))
                self._watch(listener, partial(self._accept, listener))
                while not self._over:
                    self._turn(0.1)
                    self._look()
                self._end(srun)
        except OSError as error:
            self._tell({"failed": f"the job step could not be started: {error}"})
        except Exception as error:  # a defect here
            self._tell({"failed": f"the job step's thread ended: {error!r}"})
        finally:
            if srun is not None:
                _stop(srun)
            for agent in self._agents.values():
                agent.close()
            for fd in [fd for own in self._fds for fd in own]:
                with contextlib.suppress(OSError):
                    os.close(fd)
            for each in list(self._selector.get_map().values()):
                self._selector.unregister(each.fileobj)
            self._selector.close()
            self._control.close()

    def _watch(self, what: Any, act: Callable[[], None]) -> None:
        self._selector.register(what, selectors.EVENT_READ, act)

    def _turn(self, patience: float) -> bool:
        """Do what there is to do; whether there was anything."""
        found = self._selector.select(patience)
        for key, _ in found:
            key.data()
        return bool(found)

    def _look(self) -> None:
        ended = self._srun.poll()
        if ended is not None and not self._begun:
            self._tell({"failed": f"the job step ended: {self._said(ended)}"})
            self._over = True
        late = self._first is not None and time.monotonic() - self._first > IMPORTING
        if late and not self._begun:
            missing = sorted(set(range(self._world)) - set(self._ready))
            self._tell({"failed": f"after {IMPORTING:.0f} s these tasks are not there: {missing}"})
            self._over = True
        if self._pauses_at is not None and time.monotonic() >= self._pauses_at:
            self._pauses_at = None
            self._tell({"paused": True})

    # What comes from the launch

    def _hear_launch(self) -> None:
        try:
            data = self._control.recv(2**12)
        except ConnectionResetError:
            data = b""
        if not data:
            self._over = True
            return
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            if line == b"pause":  # answered when nothing comes any more
                self._pauses_at = time.monotonic() + QUIET
            elif line == b"end":
                self._over = True

    def _tell(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the launch is gone
            self._control.sendall(json.dumps(message).encode() + b"\n")

    # What comes from srun

    def _hear_srun(self, pipe: Any) -> None:
        data = pipe.read(2**16)
        if not data:
            self._selector.unregister(pipe)
            return
        for line in data.decode("utf-8", "replace").splitlines():
            line = line.strip()
            if not line:
                continue
            self._lines = [*self._lines, line][-MOST_LINES:]
            if not self._begun and "queued and waiting" in line:
                self._report(line.removeprefix("srun: "))

    # What comes from agents

    def _accept(self, listener: socket.socket) -> None:
        raw, _ = listener.accept()
        # Beside the others: who connects and says nothing has some seconds
        threading.Thread(target=self._prove, args=(raw,), daemon=True).start()

    def _prove(self, raw: socket.socket) -> None:
        made = accept(raw, self._key)
        if made is None:
            return
        connection, kind, rank = made
        if kind not in KINDS or not 0 <= rank < self._world or self._over:
            connection.close()
            return
        with contextlib.suppress(ValueError, KeyError, OSError):  # the launch has ended meanwhile
            if kind == CONTROL:
                self._first = self._first or time.monotonic()
                self._agents[rank] = connection
                self._watch(connection, partial(self._hear_agent, rank))
            else:
                self._join(rank, KINDS.index(kind), bare(connection))

    def _join(self, rank: int, place: int, far: socket.socket) -> None:
        """Pass on what comes from the rank, and on its channel what goes there."""
        near = self._fds[rank][place]
        if KINDS[place] == OUTPUT:
            self._open.add(rank)
        self._watch(far, partial(self._pass_on, far, near, rank, place))
        if KINDS[place] == CHANNEL:
            self._watch(near, partial(self._pass_back, near, far))

    def _pass_on(self, far: socket.socket, near: int, rank: int, place: int) -> None:
        try:
            data = far.recv(2**18)
        except OSError:
            data = b""
        if self._pauses_at is not None:
            self._pauses_at = time.monotonic() + QUIET
        if data:
            with contextlib.suppress(OSError):  # the launch does not want it any more
                _write_all(near, data)
            return
        self._selector.unregister(far)
        far.close()
        if KINDS[place] == OUTPUT:
            self._open.discard(rank)

    def _pass_back(self, near: int, far: socket.socket) -> None:
        try:
            data = os.read(near, 2**18)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(near)
            return
        with contextlib.suppress(OSError):  # the rank is gone
            far.sendall(data)

    def _hear_agent(self, rank: int) -> None:
        agent = self._agents[rank]
        try:
            message = hear(agent)
        except (EOFError, OSError, ValueError):
            self._selector.unregister(agent)
            if not self._over:
                self._lost(rank)
            return
        says = message.get("says")
        if says == "importing":
            self._hosts[rank] = str(message["host"])
            if len(self._hosts) == self._world:
                hosts = list(dict.fromkeys(self._hosts[r] for r in range(self._world)))
                tasks, nodes = _several(self._world, "task"), _several(len(hosts), "node")
                self._report(f"{tasks} on {nodes}: {', '.join(hosts)}")
        elif says == "ready":
            self._ready[rank] = message
            if len(self._ready) == self._world:
                self._begin()
        elif says == "forked":
            self._forked.add(rank)
            if len(self._forked) == self._world:
                self._tell({"pids": [0] * self._world, "proxies": []})
        elif says == "ended":
            self._tell({"rank": rank, "status": int(message["status"])})

    def _lost(self, rank: int) -> None:
        """An agent has gone before the end: its node, or the job, is no longer there."""
        self._over = True
        deadline = time.monotonic() + 3.0  # for srun to say why
        while time.monotonic() < deadline and self._srun.poll() is None and not self._explained():
            self._turn(0.05)
        host = self._hosts.get(rank, "its node")
        said = self._said(self._srun.poll())
        self._tell({"failed": f"the task of rank {rank} on {host} is gone: {said}"})

    def _explained(self) -> bool:
        return any("***" in line for line in self._lines)

    def _said(self, ended: int | None) -> str:
        """What srun said of the end: the line of its reason, if there is one."""
        for sign in ("***", "error:"):  # "*** STEP 7.0 ON n1 CANCELLED AT … DUE TO TIME LIMIT ***"
            for line in self._lines:
                if sign in line:
                    return without_speaker(line)
        if self._lines:
            return without_speaker(self._lines[-1])
        return "srun says nothing" if ended is None else f"srun ended with exit code {ended}"

    def _begin(self) -> None:
        """All agents are ready: compare clocks, and have them fork their ranks."""
        clocks = [_offset(self._agents[rank]) for rank in range(self._world)]
        self._tell({"clocks": clocks})
        nodes = [int(self._ready[rank]["node"]) for rank in range(self._world)]
        before: dict[int, int] = defaultdict(int)
        header = self._header
        for rank in range(self._world):
            node = nodes[rank]
            environment = {
                "MASTER_ADDR": self._hosts[0],
                "MASTER_PORT": str(self._ready[0]["port"]),
                "LOCAL_RANK": str(before[node]),
                "LOCAL_WORLD_SIZE": str(nodes.count(node)),
                "GROUP_RANK": str(sorted(set(nodes)).index(node)),
            }
            before[node] += 1
            start = {"scratch": header["scratch"], "cwd": header["cwd"], "environment": environment}
            say(self._agents[rank], {"start": start})
        self._begun = True
        self._lines.clear()  # what was said before is not why they end
        self._began()

    # The end

    def _end(self, srun: subprocess.Popen[bytes]) -> None:
        """Have the agents end their ranks, pass on what these have printed, wait for srun."""
        for agent in self._agents.values():
            with contextlib.suppress(OSError):
                say(agent, {"end": True})
        deadline = time.monotonic() + END_LIMIT
        if not self._agents:  # it waits in the queue
            srun.terminate()
        while time.monotonic() < deadline and (self._open or srun.poll() is None):
            self._turn(0.05)
            if time.monotonic() > deadline - END_LIMIT / 2:
                srun.terminate()
        nothing = [None] * self._world
        self._tell({"peaks": nothing, "set_back": [], "live": nothing, "limited": ""})
        self._tell({"gone": srun.poll() is not None})


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def without_speaker(line: str) -> str:
    """The line without who says it: "srun: error: ", "slurmstepd-n1: error: *** "."""
    return re.sub(r"^((srun|slurmstepd(-[^:]*)?|error|fatal): )*|\*\*\*", "", line).strip()


def _stop(srun: subprocess.Popen[bytes]) -> None:
    """End it in a way that lets it cancel what it has asked for; whatever it does, end it."""
    srun.terminate()
    try:
        srun.wait(END_LIMIT / 2)
    except subprocess.TimeoutExpired:
        srun.kill()
        srun.wait()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _offset(agent: Connection) -> float:
    """What the agent's monotonic clock is ahead of this one's, in seconds: to within half of the
    quickest exchange."""
    best = (float("inf"), 0.0)
    for _ in range(PINGS):
        began = time.monotonic()
        say(agent, {"clock": True})
        at = float(hear(agent)["at"])
        took = time.monotonic() - began
        best = min(best, (took, at - began - took / 2))
    return best[1]
