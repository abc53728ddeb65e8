"""Run Python on N ranks, and know what happened."""

import json
import os
import pickle
import re
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from hpml.problem import UserError
from hpml.ranks import diagnose, movement, stationary, warm
from hpml.ranks.channel import EventReader, frame
from hpml.ranks.evidence import Diagnosis, Evidence
from hpml.ranks.ledger import RankLog
from hpml.ranks.rank import SAMPLE_SIGNAL, STACK_SIGNAL, Job, stack_file
from hpml.ranks.server import MAX_RANKS

LOOK_EVERY = 0.1  # seconds between two looks at what moves
QUIET = 1.0  # seconds without movement after which a launch that cannot go on is ended
GRACE = 0.15  # seconds in which the others may still end, once one rank has ended badly
LOOKS_AT_A_LOOP = 10  # equal looks that prove a loop endless


@dataclass(frozen=True)
class Watched:
    """The code whose lines a diagnosis names: what a learner has before their eyes."""

    filename: str
    source: str | None = None
    words: str = "of the code"


def launch(
    drive: Callable[..., Any],
    world_size: int,
    *,
    answer: str | None = None,
    answer_name: str = "answer",
    inputs: Sequence[Any] | None = None,
    process_group: bool = True,
    environment: Callable[[int], Mapping[str, str]] | None = None,
    cwd: str | os.PathLike | None = None,
    timeout: float = 60.0,
    threads: int = 1,
    watched: Watched | None = None,
    on_output: Callable[[int, str], None] | None = None,
) -> Evidence:
    """Run `drive` on `world_size` ranks forked from the warm server; return when all have ended.

    Each rank calls `drive(*args)`, with `args` the answer as a module if `answer` (its source) is
    given, then `inputs[rank]` if `inputs` is. Drive and inputs are sent by value; what the drive
    returns comes back in the typed encoding of `hpml.ranks.encoding`.

    With `process_group` the default group of torch.distributed is there when the drive starts.
    Without, a rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT in its environment, as under torchrun; `environment(rank)` adds to it.

    Ranks run in `cwd` (default: an empty folder that goes when they do), each with `threads`
    threads. `on_output(rank, text)` sees their stdout and stderr as it comes. `watched` is the code
    whose lines are reported (default: the answer, or else the file of the drive).

    Nothing outlives the launch. A rank that raises, exits or is killed, ranks in different
    collectives or with different shapes, ranks that wait for what cannot come: each ends the launch
    and is told in `evidence.diagnosis`; so does `timeout`, in seconds.

    Raises UserError for arguments that cannot be meant, `warm.ServerDied` where ranks cannot be had.
    """
    if not 1 <= world_size <= MAX_RANKS:
        raise UserError(f"world size {world_size}: give a number from 1 to {MAX_RANKS}")
    if inputs is not None and len(inputs) != world_size:
        raise UserError(f"{len(inputs)} inputs for {world_size} ranks: give one per rank")
    scratch = tempfile.mkdtemp(prefix="hpml-ranks-")
    try:
        folder = Path(cwd) if cwd is not None else Path(scratch, "work")
        folder.mkdir(exist_ok=True)
        watched = watched or _watched(drive, answer, answer_name)
        drive_bytes = cloudpickle.dumps(drive)
        port = _free_port()
        jobs = [
            Job(
                drive=drive_bytes,
                inputs=None if inputs is None else cloudpickle.dumps(inputs[rank]),
                answer=answer,
                filename=watched.filename,
                rank=rank,
                world_size=world_size,
                store=os.path.join(scratch, "store"),
                scratch=scratch,
                cwd=str(folder),
                environment={
                    "RANK": str(rank),
                    "WORLD_SIZE": str(world_size),
                    "LOCAL_RANK": str(rank),
                    "LOCAL_WORLD_SIZE": str(world_size),
                    "GROUP_RANK": "0",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    **(environment(rank) if environment is not None else {}),
                },
                process_group=process_group,
                timeout=timeout,
                threads=threads,
            )
            for rank in range(world_size)
        ]
        running = _Launch(jobs, watched, timeout, on_output)
        try:
            return running.run()
        finally:
            running.end()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _watched(drive: Callable, answer: str | None, name: str) -> Watched:
    if answer is not None:
        return Watched(f"<{name}>", answer, "of your answer")
    code = getattr(drive, "__code__", None)
    return Watched(code.co_filename if code else "<drive>")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class _Launch:
    """One launch, from the parent's side: sockets, logs, and the loop that watches them."""

    def __init__(
        self,
        jobs: Sequence[Job],
        watched: Watched,
        timeout: float,
        on_output: Callable[[int, str], None] | None,
    ) -> None:
        self.jobs, self.watched, self.of = jobs, watched, watched.words
        self.timeout, self.on_output = timeout, on_output
        self.started = time.monotonic()
        self.logs = [RankLog(job.rank, self.started) for job in jobs]
        self.readers = [EventReader() for _ in jobs]
        self.unsent = [memoryview(frame(pickle.dumps(job))) for job in jobs]
        self.pids: list[int] = []
        self.gone = False
        self.last_movement = self.started
        self.processor: dict[int, float] = {}
        self.first_fault: float | None = None
        self.selector = selectors.DefaultSelector()
        self.control_text = b""
        self._open()

    def _open(self) -> None:
        control, theirs = socket.socketpair()
        fds, close = [], [theirs]
        for rank in range(len(self.jobs)):
            channel, far = socket.socketpair()
            read_end, write_end = os.pipe()
            channel.setblocking(False)
            os.set_blocking(read_end, False)
            fds += [far.fileno(), write_end]
            close += [far, write_end]
            self.selector.register(
                channel, selectors.EVENT_READ | selectors.EVENT_WRITE, ("channel", rank)
            )
            self.selector.register(read_end, selectors.EVENT_READ, ("output", rank))
        self.control = control
        self.selector.register(control, selectors.EVENT_READ, ("control", -1))
        try:
            warm.server().fork_supervisor(theirs, fds)
            control.sendall(json.dumps({"scratch": self.jobs[0].scratch}).encode() + b"\n")
        finally:
            for item in close:
                item.close() if isinstance(item, socket.socket) else os.close(item)
        # The server may have taken seconds to start; that is not the launch's time.
        self.started = self.last_movement = time.monotonic()
        for log in self.logs:
            log.started = self.started

    # -- the loop ---------------------------------------------------------------------------------

    def run(self) -> Evidence:
        diagnosis = None
        next_look = self.started + LOOK_EVERY
        while diagnosis is None and not self._all_ended():
            called = self._turn(max(0.0, next_look - time.monotonic()))
            if called and diagnose.mismatch(self.logs, self.of):
                self._let_the_others_come()
                diagnosis = diagnose.mismatch(self.logs, self.of)
            now = time.monotonic()
            if self.gone and not self._all_ended():
                raise warm.ServerDied("the launch's supervisor went away before its ranks ended")
            if diagnosis is None and now >= next_look:
                diagnosis = self._look(now)
                next_look = now + LOOK_EVERY
        seconds = time.monotonic() - self.started
        stacks = self._stacks() if diagnosis is not None else {}
        if diagnosis is None:
            diagnosis = diagnose.fault(self.logs, self.of)
            stacks = {log.rank: log.raised.traceback for log in self.logs if log.raised}
        if diagnosis is not None:
            diagnosis = Diagnosis(diagnosis.kind, diagnosis.sentence, diagnosis.ranks, stacks)
        self.end()
        return Evidence(
            world_size=len(self.jobs),
            ranks=tuple(log.evidence(seconds) for log in self.logs),
            seconds=seconds,
            diagnosis=diagnosis,
        )

    def _all_ended(self) -> bool:
        return all(log.end is not None for log in self.logs)

    def _turn(self, patience: float) -> bool:
        """Wait for what comes and take it in; returns whether a collective was entered."""
        called = False
        for key, mask in self.selector.select(patience):
            kind, rank = key.data
            if kind == "control":
                self._hear_supervisor()
            elif kind == "output":
                self._read_output(key.fd, rank)
            else:
                if mask & selectors.EVENT_WRITE:
                    self._send_job(key.fileobj, rank)
                if mask & selectors.EVENT_READ:
                    called = self._read_events(key.fileobj, rank) or called
        return called

    def _let_the_others_come(self) -> None:
        """Take in what the ranks do until each has ended or waits: who is odd shows among all."""
        deadline = time.monotonic() + QUIET
        while time.monotonic() < deadline and any(
            log.end is None and log.waiting is None for log in self.logs
        ):
            self._turn(deadline - time.monotonic())

    def _send_job(self, channel: socket.socket, rank: int) -> None:
        try:
            self.unsent[rank] = self.unsent[rank][channel.send(self.unsent[rank]) :]
        except BlockingIOError:
            return
        except OSError:  # the rank died before it had read everything; its end is told elsewhere
            self.unsent[rank] = memoryview(b"")
        if not self.unsent[rank]:
            self.selector.modify(channel, selectors.EVENT_READ, ("channel", rank))

    def _read_events(self, channel: socket.socket, rank: int) -> bool:
        try:
            data = channel.recv(2**20)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data = b""
        if not data:
            self.selector.unregister(channel)
            channel.close()
            return False
        now = time.monotonic()
        log, called = self.logs[rank], False
        try:
            for event in self.readers[rank].feed(data):
                log.take(event, now - self.started)
                called = called or event[0] == "call"
                if event[0] != "sample":  # those are our own doing
                    self.last_movement = now
        except ValueError as error:
            log.take(["refused", str(error)], now - self.started)
        return called

    def _read_output(self, fd: int, rank: int) -> None:
        try:
            data = os.read(fd, 2**16)
        except BlockingIOError:
            return
        if not data:
            self.selector.unregister(fd)
            os.close(fd)
            return
        room = self.logs[rank].output_cut
        self.logs[rank].print(data)
        if self.on_output is not None and not room:
            self.on_output(rank, data.decode("utf-8", "replace"))

    def _hear_supervisor(self) -> None:
        try:
            data = self.control.recv(2**16)
        except ConnectionResetError:
            data = b""
        if not data:
            self.gone = True
            self.selector.unregister(self.control)
            return
        *lines, self.control_text = (self.control_text + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "pids" in message:
                self.pids = message["pids"]
            elif "rank" in message:
                self._rank_gone(message["rank"], message["status"])

    def _rank_gone(self, rank: int, status: int) -> None:
        # Events that it sent before it died may still be on their way through the socket.
        for key in list(self.selector.get_map().values()):
            if key.data == ("channel", rank):
                while key.fileobj.fileno() >= 0 and self._pending(key.fileobj):
                    self._read_events(key.fileobj, rank)
        self.logs[rank].process_ended(status, time.monotonic() - self.started)
        self.last_movement = time.monotonic()

    @staticmethod
    def _pending(channel: socket.socket) -> bool:
        try:
            return bool(channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    # -- looking at what moves --------------------------------------------------------------------

    def _look(self, now: float) -> Diagnosis | None:
        if any(log.end not in (None, "returned") for log in self.logs):
            self.first_fault = self.first_fault or now
            if now - self.first_fault >= GRACE:
                return diagnose.fault(self.logs, self.of)
        if now - self.started > self.timeout:
            self._locate_workers()
            return diagnose.limit(self.logs, self.of, self.timeout)
        if not self.pids:
            return None
        looping = self._looping(now)
        if looping:
            return diagnose.endless_loop(self.logs, looping, self.of)
        if now - self.last_movement < QUIET:
            self._measure_processor(now)
            return None
        if self._moves(now):
            return None
        for log in self._unfinished():
            log.wait_for_what_is_open()
        self._locate_workers()
        return diagnose.hang(self.logs, self.of)

    def _measure_processor(self, now: float) -> None:
        """Take the processor time of this moment as what further use is compared with."""
        for log in self._unfinished():
            self.processor[log.rank] = movement.processor_seconds(self.pids[log.rank], True)
        self.measured = now

    def _moves(self, now: float) -> bool:
        """Whether any rank gets anywhere, though no event has come for a while."""
        for log in self._unfinished():
            pid = self.pids[log.rank]
            if diagnose.can_complete(log, self.logs):
                return True
            used = movement.processor_seconds(pid, True)
            working = used - self.processor.get(log.rank, 0.0) > 0.03 * QUIET
            if working or movement.is_busy(pid):
                self.last_movement = now
                self.processor[log.rank] = used
                return True
        return False

    def _unfinished(self) -> list[RankLog]:
        return [log for log in self.logs if log.end is None]

    def _looping(self, now: float) -> list[RankLog]:
        """Ranks outside any collective that several looks found in a loop where nothing changes."""
        found = []
        for log in self._unfinished():
            source = self.watched.source
            if source is None or log.waiting is not None or now - self.last_movement_of(log) < 0.3:
                log.samples.clear()
                continue
            recent = log.samples[-LOOKS_AT_A_LOOP:]
            if (
                len(recent) == LOOKS_AT_A_LOOP
                and len({print_ for _, _, print_ in recent}) == 1
                and all(line and stationary.never_ends(source, line) for _, line, _ in recent)
            ):
                log.line = min(line for _, line, _ in recent if line)
                found.append(log)
            else:
                self._signal(log, SAMPLE_SIGNAL)
        return found

    def last_movement_of(self, log: RankLog) -> float:
        """When the rank last told of a call, in the clock's own seconds."""
        times = [t for c in log.calls[-1:] for t in (c.issued, c.finished) if t is not None]
        return self.started + max(times, default=0.0)

    def _signal(self, log: RankLog, number: int) -> None:
        try:
            os.kill(self.pids[log.rank], number)
        except ProcessLookupError:
            return

    def _stacks(self, only: Sequence[RankLog] | None = None) -> dict[int, str]:
        """The Python stacks of the ranks that are still there, as faulthandler writes them."""
        logs = [log for log in (only or self._unfinished()) if self.pids]
        files = {log.rank: Path(stack_file(self.jobs[0].scratch, log.rank)) for log in logs}
        before = {r: f.stat().st_size if f.exists() else -1 for r, f in files.items()}
        for log in logs:
            if before[log.rank] >= 0:  # its handler is installed
                self._signal(log, STACK_SIGNAL)
        deadline = time.monotonic() + 0.3
        stacks: dict[int, str] = {}
        while len(stacks) < len(logs) and time.monotonic() < deadline:
            time.sleep(0.005)
            for log in logs:
                if before[log.rank] < 0 or files[log.rank].stat().st_size <= before[log.rank]:
                    continue
                text = files[log.rank].read_text(errors="replace")[before[log.rank] :]
                stacks[log.rank] = _most_recent_call_last(text)
        return stacks

    def _locate_workers(self) -> None:
        """Set `line` of the ranks that are in no collective, from their stacks."""
        workers = [log for log in self._unfinished() if log.waiting is None]
        watched = re.escape(self.watched.filename)
        for rank, text in (self._stacks(workers) if workers else {}).items():
            lines = re.findall(rf'File "{watched}", line (\d+)', text)
            self.logs[rank].line = int(lines[-1]) if lines else None

    # -- the end ----------------------------------------------------------------------------------

    def end(self) -> None:
        """End every process of the launch, and wait until the supervisor says that all are gone."""
        if self.selector.get_map() is None:
            return
        try:
            self.control.sendall(b"end\n")
        except OSError:  # the supervisor is gone already
            self.gone = True
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and (self._outputs_open() or not self.gone):
            if not self.selector.get_map():
                break
            self._turn_outputs(deadline - time.monotonic())
        for key in list(self.selector.get_map().values()):
            os.close(key.fd) if isinstance(key.fileobj, int) else key.fileobj.close()
        self.control.close()
        self.selector.close()

    def _outputs_open(self) -> bool:
        return any(key.data[0] == "output" for key in self.selector.get_map().values())

    def _turn_outputs(self, patience: float) -> None:
        for key, _ in self.selector.select(min(patience, 0.5)):
            kind, rank = key.data
            if kind == "control":
                self._hear_supervisor()
            elif kind == "output":
                self._read_output(key.fd, rank)
            else:  # whatever a rank still had to say is not evidence any more
                self.selector.unregister(key.fileobj)
                key.fileobj.close()


def _most_recent_call_last(text: str) -> str:
    """A faulthandler dump of the main thread, in the order of a traceback."""
    threads = re.split(r"\n(?=(?:Current thread|Thread) )", text.strip())
    main = threads[-1].splitlines()  # faulthandler lists the main thread last
    return "\n".join(
        [main[0].replace("most recent call first", "most recent call last")] + main[:0:-1]
    )
