"""One launch: its sockets, and the loop that takes in what comes."""

import contextlib
import json
import os
import pickle
import select
import selectors
import shutil
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from hpml.answer.rules import Rules
from hpml.network.link import Link
from hpml.ranks.channel import EventReader, frame
from hpml.ranks.evidence import MEETING, Counts, Diagnosis, Evidence, LiveTensors
from hpml.ranks.flavour import by_horovod
from hpml.ranks.job import Job
from hpml.ranks.killing import Kill
from hpml.ranks.parent import diagnose, warm
from hpml.ranks.parent.leash import Cancelled, Leash
from hpml.ranks.parent.ledger import RankLog
from hpml.ranks.parent.reports import Reports
from hpml.ranks.parent.serving import Server, Serving
from hpml.ranks.parent.standstill import stand_still
from hpml.ranks.parent.watch import LOOK_EVERY, QUIET, QUIET_UNSEEN, Watch, Watched

PASSING_ON = 0.3  # seconds to drain a dead rank's proxy
END_LIMIT = 10.0  # seconds for the supervisor to end everything


class Running:
    """Ranks at work on `jobs`. A context: on exit all their processes are gone."""

    def __init__(
        self,
        jobs: Sequence[Job],
        scratch: str,
        watched: Watched,
        timeout: float,
        on_output: Callable[[int, str], None] | None,
        link: Link | None,
        server: warm.WarmServer,
        leash: Leash | None,
        serve: Server | None,
        *,
        kept: bool,
        kill: Kill | None,
        looks: bool,
        opens: Sequence[str],
        memory: int | None,
    ) -> None:
        self._server = server
        self._world_size = len(jobs)
        rules = jobs[0].rules or Rules(())
        self._header: dict[str, Any] = {
            "scratch": scratch,
            "cwd": jobs[0].cwd,
            "kept": kept,
            "kill": kill and asdict(kill),
            "link": link and link.text,
            "rendezvous": by_horovod(jobs[0].flavour),
            "alone": not by_horovod(jobs[0].flavour) and not jobs[0].process_group,
            "proxied": jobs[0].proxied,
            "looks": looks,
            "opens": list(opens),
            "refused": [*rules.refused_modules],
            "programs": not rules.refuses_programs,
            "count_memory": jobs[0].count_memory,
            "memory": memory,
            "live": jobs[0].live,
        }
        self._job = jobs[0]
        self._words = watched.words
        self._on_output = on_output
        self._link = link
        self._unsent = [memoryview(frame(pickle.dumps(job))) for job in jobs]
        self._readers = [EventReader() for _ in jobs]
        self._selector = selectors.DefaultSelector()
        self._agreement = diagnose.Agreement()
        self._control_text = b""
        self._supervisor_gone = self._cancelled = False
        self._reports = Reports()
        self._find: tuple[Callable[[], list[int]], Callable[[], list[int]]] | None = None
        self._channels: list[socket.socket] = []
        self._stacks: list[int] = []  # pipes with each rank's stacks
        if leash is not None:
            self._selector.register(leash, selectors.EVENT_READ, ("leash", -1))
        self._open()
        # The server may have taken seconds to start; that is not the launch's time.
        self._started = time.monotonic()
        self._logs = [RankLog(job.rank, self._started) for job in jobs]
        look = self._look if looks else None
        self._serving = None if serve is None else Serving(serve, self._logs, self._send, look)
        self._leash = leash
        self._watch = self._new_watch(watched, timeout)

    def _new_watch(self, watched: Watched, timeout: float) -> Watch:
        unseen = self._header["alone"] and self._link is not None and not self._job.proxied
        return Watch(
            self._logs,
            watched,
            timeout,
            self._stacks,
            self._started,
            linked=self._link is not None,
            flavour=self._job.flavour,
            leash=self._leash,
            quiet=QUIET_UNSEEN if unseen else QUIET,
        )

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: Any) -> None:
        self._end()

    def until_ended(self) -> Evidence:
        """Take in the ranks' events until all have ended or the launch cannot go on."""
        diagnosis: Diagnosis | None = None
        next_look = self._started + LOOK_EVERY
        while diagnosis is None and not self._all_ended():
            disagree = self._turn(max(0.0, self._until(next_look) - time.monotonic()))
            self._send_what_is_due()
            if disagree and diagnose.mismatch(self._logs, self._words):
                self._let_the_others_come()  # so that the sentence names all ranks
                diagnosis = diagnose.mismatch(self._logs, self._words)
            if self._cancelled:
                raise Cancelled("the launch was ended by its caller")
            if self._supervisor_gone and not self._all_ended():
                failed = "the launch's supervisor went away before its ranks ended"
                self._reports.take({"failed": failed})
            if why := self._reports.failed:
                raise warm.ServerDied(why, began=any(log.begun for log in self._logs))
            now = time.monotonic()
            if diagnosis is None and now >= next_look:
                diagnosis = self._watch.flood() or self._watch.look(now)
                next_look = now + LOOK_EVERY
        seconds = time.monotonic() - self._started
        diagnosis = diagnosis or diagnose.fault(self._logs, self._words)
        if diagnosis is not None:
            tracebacks = {log.rank: log.raised.traceback for log in self._logs if log.raised}
            diagnosis = replace(diagnosis, stacks=tracebacks | self._watch.stacks())
        self._wind_up(diagnosis)
        reports = self._reports
        if diagnosis is not None and self._header["memory"] is not None:
            allowed, live = self._header["memory"], reports.live
            out = diagnose.out_of_memory(self._logs, self._words, allowed, live)
            diagnosis = diagnosis if out is None else replace(out, stacks=diagnosis.stacks)
        return Evidence(
            world_size=self._world_size,
            ranks=tuple(
                replace(
                    log.evidence(seconds),
                    traffic=traffic,
                    peak_bytes=peak,
                    set_back=log.rank in reports.set_back,
                    live=page and LiveTensors.of_page(page),
                )
                for log, traffic, peak, page in zip_longest(
                    self._logs, reports.traffic_of("ranks"), reports.peaks, reports.live
                )
            ),
            seconds=seconds,
            diagnosis=diagnosis,
            link=None if reports.no_link else self._link,
            no_link=reports.no_link,
            uplinks=tuple(reports.traffic_of("nodes")),
            killed=reports.killed,
            broken=reports.broken,
            no_kill=reports.no_kill,
            files=reports.left,
            limited=reports.limited,
        )

    def _wind_up(self, diagnosis: Diagnosis | None) -> None:
        """The drive is over, for this reason where not all have returned."""
        self._end()

    def _open(self) -> None:
        """Make a channel and an output pipe per rank, and hand their far ends to a supervisor."""
        with contextlib.ExitStack() as far_ends:
            self._control, theirs = socket.socketpair()
            far_ends.enter_context(theirs)
            self._selector.register(self._control, selectors.EVENT_READ, ("control", -1))
            fds: list[int] = []
            try:
                for rank in range(self._world_size):
                    channel, far = socket.socketpair()
                    far_ends.enter_context(far)
                    read_end, write_end = os.pipe()
                    far_ends.callback(os.close, write_end)
                    channel.setblocking(False)
                    self._channels.append(channel)
                    os.set_blocking(read_end, False)
                    both = selectors.EVENT_READ | selectors.EVENT_WRITE
                    self._selector.register(channel, both, ("channel", rank))
                    self._selector.register(read_end, selectors.EVENT_READ, ("output", rank))
                    stack, stack_end = os.pipe()
                    far_ends.callback(os.close, stack_end)
                    os.set_blocking(stack, False)
                    self._stacks.append(stack)
                    fds += [far.fileno(), write_end, stack_end]
                self._server.fork_supervisor(theirs, fds)
                self._control.sendall(json.dumps(self._header).encode() + b"\n")
            except BaseException:
                self._close()
                raise

    def _all_ended(self) -> bool:
        return all(log.end is not None for log in self._logs)

    def _turn(self, patience: float) -> bool:
        """Wait for what comes and take it in; returns whether calls mismatch."""
        disagree = False
        for key, mask in self._selector.select(patience):
            kind, rank = key.data
            if kind == "control":
                self._hear_supervisor()
            elif kind == "output":
                self._read_output(key.fd, rank)
            elif kind == "leash":
                self._cancelled = True
                self._let_go_of_leash()
            elif (channel := _channel(key)).fileno() >= 0:  # else closed since, with its rank's end
                if mask & selectors.EVENT_WRITE:
                    self._send_unsent(channel, rank)
                if mask & selectors.EVENT_READ:
                    disagree = self._read_events(channel, rank) or disagree
        return disagree

    def _until(self, next_look: float) -> float:
        due = self._serving.next_due if self._serving else None
        return next_look if due is None else min(next_look, self._started + due)

    def _send_what_is_due(self) -> None:
        if self._serving is not None and self._serving.next_due is not None:
            self._watch.moved = True  # a reply that is due later is not a standstill
            self._serving.send_due(time.monotonic() - self._started, self._stand_still)

    def _stand_still(self) -> bool:
        """Whether all ranks do. True without proxies: Gloo's threads are in the ranks, unseen."""
        return not self._header["proxied"] or stand_still(self._logs, self._watch.pids)

    def _let_the_others_come(self) -> None:
        """Drain events until every rank has finished or blocked."""
        deadline = time.monotonic() + QUIET
        while time.monotonic() < deadline and any(map(_may_still_come, self._logs)):
            self._turn(deadline - time.monotonic())

    def _send(self, rank: int, data: bytes) -> None:
        """Send to a rank, after what is still on its way there."""
        channel = self._channels[rank]
        if channel.fileno() < 0:  # the rank closed its end
            return
        self._unsent[rank] = memoryview(bytes(self._unsent[rank]) + data)
        self._send_unsent(channel, rank)

    def _look(self, rank: int) -> None:
        """Have the supervisor look at the files, for a request of that rank."""
        with contextlib.suppress(OSError):  # it is gone, which ends the launch
            self._control.sendall(f"look {rank}\n".encode())

    def _send_unsent(self, channel: socket.socket, rank: int) -> None:
        try:
            self._unsent[rank] = self._unsent[rank][channel.send(self._unsent[rank]) :]
        except BlockingIOError:
            pass
        except OSError:  # the rank died before it read everything; its end is recorded elsewhere
            self._unsent[rank] = memoryview(b"")
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent[rank] else 0)
        if self._selector.get_key(channel).events != events:
            self._selector.modify(channel, events, ("channel", rank))

    def _read_events(self, channel: socket.socket, rank: int) -> bool:
        try:
            data = channel.recv(2**20)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            data = b""
        if not data:
            self._selector.unregister(channel)
            channel.close()
            return False
        now = time.monotonic()
        log, disagree = self._logs[rank], False
        try:
            for event in self._readers[rank].feed(data):
                if event[0] == "ask" and self._serving is not None:
                    self._serving.take(rank, event, now - self._started)
                else:
                    log.take(event, now - self._started)
                if (
                    event[0] == "call"
                    and log.end is None
                    and self._agreement.broken_by(rank, log.calls[-1])
                ):
                    disagree = True
                if event[0] != "sample":  # the answers to our own signals
                    self._watch.moved = True
        except ValueError as error:
            log.take(["refused", str(error)], now - self._started)
        return disagree

    def _read_output(self, fd: int, rank: int) -> None:
        try:
            data = os.read(fd, 2**16)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(fd)
            os.close(fd)
            return
        log = self._logs[rank]
        if self._on_output is not None and not log.output_cut:
            self._on_output(rank, data.decode("utf-8", "replace"))
        log.print(data)

    def _hear_supervisor(self) -> None:
        try:
            data = self._control.recv(2**16)
        except ConnectionResetError:
            data = b""
        if not data:
            self._supervisor_gone = True
            self._selector.unregister(self._control)
            return
        *lines, self._control_text = (self._control_text + data).split(b"\n")
        for message in map(json.loads, lines):
            if "pids" in message:
                here = self._server.pids_here
                on_network = message["proxies"] or message["pids"]
                self._find = (partial(here, message["pids"]), partial(here, on_network))
                self._watch.forked(*self._find)
            elif "rank" in message:
                log = self._logs[message["rank"]]
                log.out_of_memory = log.out_of_memory or message.get("out_of_memory", False)
                self._rank_gone(message["rank"], message["status"])
            elif "clocks" in message:
                self._compare_clocks(message["clocks"])
            elif "looked" in message:
                now = time.monotonic() - self._started
                counts = Counts(**message["counts"])
                if self._serving is not None:
                    self._serving.looked(message["looked"], message["files"], now, counts)
            else:
                self._reports.take(message)

    def _compare_clocks(self, ahead: Sequence[float]) -> None:
        """The ranks begin only now, on machines whose clocks are `ahead` of this one's."""
        self._started = time.monotonic()
        for log, seconds in zip(self._logs, ahead, strict=True):
            log.started = self._started + seconds

    def _rank_gone(self, rank: int, status: int) -> None:
        # What it sent before is passed on by its proxy, which then ends.
        deadline = time.monotonic() + (PASSING_ON if self._header["proxied"] else 0.0)
        while (left := deadline - time.monotonic()) > 0 and self._channels[rank].fileno() >= 0:
            if select.select([self._channels[rank]], [], [], left)[0]:
                self._read_events(self._channels[rank], rank)
        # Events that it sent before it died may still be on their way through the socket.
        channel = self._channels[rank]
        while channel.fileno() >= 0 and _has_data(channel):
            self._read_events(channel, rank)
        self._watch.moved = True
        self._logs[rank].process_ended(status, time.monotonic() - self._started)

    def _end(self) -> None:
        """End every process of the launch, and wait until the supervisor reports them gone."""
        if self._selector.get_map() is None:
            return
        with contextlib.suppress(OSError):  # the supervisor is gone already
            self._control.sendall(b"end\n")
        self._let_go_of_leash()
        deadline = time.monotonic() + END_LIMIT
        while time.monotonic() < deadline and self._something_left():
            for key, _ in self._selector.select(0.5):
                kind, rank = key.data
                if kind == "control":
                    self._hear_supervisor()
                elif kind == "output":
                    self._read_output(key.fd, rank)
                elif (channel := _channel(key)).fileno() >= 0:
                    self._selector.unregister(channel)
                    channel.close()  # what a rank still sends is no longer evidence
        if not self._reports.gone:  # nor has the supervisor removed the ranks' folder
            self._server.end_all()
            shutil.rmtree(self._header["scratch"], ignore_errors=True)
        self._close()

    def _something_left(self) -> bool:
        outputs = any(key.data[0] == "output" for key in self._selector.get_map().values())
        return outputs or not self._supervisor_gone

    def _let_go_of_leash(self) -> None:
        """Stop watching it. The caller owns it, so it is not closed here."""
        for key in list(self._selector.get_map().values()):
            if key.data[0] == "leash":
                self._selector.unregister(key.fileobj)

    def _close(self) -> None:
        self._let_go_of_leash()
        for key in list(self._selector.get_map().values()):
            os.close(key.fd) if isinstance(key.fileobj, int) else _channel(key).close()
        for stack in self._stacks:
            os.close(stack)
        self._stacks.clear()
        self._control.close()
        self._selector.close()


def _may_still_come(log: RankLog) -> bool:
    """Whether the rank is at work, or on its way into the group."""
    pending = log.pending
    return log.end is None and (pending is None or pending.operation in MEETING)


def _channel(key: selectors.SelectorKey) -> socket.socket:
    assert isinstance(key.fileobj, socket.socket)
    return key.fileobj


def _has_data(channel: socket.socket) -> bool:
    try:
        return bool(channel.recv(1, socket.MSG_PEEK))
    except OSError:
        return False
