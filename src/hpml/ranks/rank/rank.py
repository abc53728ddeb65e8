"""What a rank does from its fork to its end: set itself up, run the drive, send the result."""

import contextlib
import faulthandler
import io
import itertools
import os
import pickle
import random
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from hpml.answer import enforce
from hpml.answer.module import as_module
from hpml.ranks import encoding, flavour, inputs, stationary, warm_tensorflow
from hpml.ranks.channel import MAX_VALUE, TOO_LARGE, EventSender, receive_job
from hpml.ranks.job import SAMPLE_SIGNAL, STACK_SIGNAL, Again, Job
from hpml.ranks.rank import (
    allocator,
    asking,
    dispatcher,
    fork_lock,
    horovod_recorder,
    joining,
    recorder,
    remote_group,
)
from hpml.ranks.rank.arena import Arena
from hpml.ranks.rank.gate import Gate
from hpml.ranks.rank.live import Page, Tracker

MESSAGE = 2000  # characters of an exception's


def run(
    sock: socket.socket,
    output: int,
    stacks: int,
    network: dict[str, str],
    proxy: tuple[socket.socket, Arena] | None = None,
    gate: Gate | None = None,
    page: Page | None = None,
) -> None:
    """Run the job that arrives on `sock`, with stdout and stderr to the pipe `output`.

    faulthandler writes to the pipe `stacks` where the rank stands, whenever it gets STACK_SIGNAL.
    `network` are the environment variables that the network asks for. With a `proxy`, `sock` leads
    to it; it is where the ends of calls come in, and the memory shared with it. With a `gate` the
    rank waits there before the answer and the drive. With a `page` its tensors are counted there.

    Does not return: once all is sent the process waits to be ended by its supervisor, since an exit
    would close connections that other ranks may still be using. A job that stays waits for what is
    to be run next.
    """
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, output), (2, output)):
        os.dup2(source, target)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True)
    job: Job = pickle.loads(receive_job(sock))
    send = EventSender(sock)
    drive: Callable[..., Any] | None = None
    tracker: Tracker | None = None
    pid = os.getpid()
    try:
        os.environ.update(job.environment | network | job.extra_environment)
        os.makedirs(job.environment["TMPDIR"], exist_ok=True)
        tempfile.tempdir = None  # what it was before the fork
        if job.served:
            # Processes that the rank forks ask over the same channel.
            send = EventSender(sock, fork_lock.ForkLock())
            asking.install(sock, send)
        at_start, before_calls = delays_of(job)
        _prepare(job, send, stacks, before_calls, proxy)
        if job.count_memory and proxy is not None:
            proxy[1].let_go = True
        drive, arguments, tracker = _set_up(job, gate, page)
        if job.stays:
            send(["set up"])
        time.sleep(at_start)  # with delays, ranks start at different times
        event = _run(drive, arguments)
    except BaseException as error:
        event = _raised(error, job.filename)
    if job.stays:  # an interrupt is meant for what it runs
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _finish(send, event, pid if job.stays else None)
    while job.stays and drive is not None:
        _once_more(drive, pickle.loads(receive_job(sock)), send, tracker, pid)
    while True:
        signal.pause()


def _once_more(
    drive: Callable[..., Any],
    again: Again,
    send: EventSender,
    tracker: Tracker | None,
    pid: int,
) -> None:
    """Run the drive of ranks that have stayed once more."""
    try:
        signal.signal(SAMPLE_SIGNAL, stationary.sampler(send.offer, again.filename))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        recorder.begin_again(again.filename, again.afresh)
        if tracker is not None:
            tracker.begin_again()
        event = _run(drive, [inputs.load(again.inputs)])
    except BaseException as error:
        event = _raised(error, again.filename)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _finish(send, event, pid)


def _finish(send: EventSender, event: list[Any], pid: int | None) -> None:
    """Send how the drive has ended, after all that it has printed. With `pid`, from that process
    alone: one that the drive has forked, and that came to its end as well, leaves."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # closed by the answer: nothing left to flush
            continue
    if pid not in (None, os.getpid()):  # it would read what is sent to the rank
        os._exit(0)
    send(event)


def _prepare(
    job: Job,
    send: EventSender,
    stacks: int,
    delays: Iterator[float],
    proxy: tuple[socket.socket, Arena] | None,
) -> None:
    faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)
    signal.signal(SAMPLE_SIGNAL, stationary.sampler(send.offer, job.filename))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job.cwd)
    torch.set_num_threads(job.threads)
    # Forked ranks would all start from the same state. Python's random reseeds itself.
    np.random.seed()
    torch.default_generator.seed()
    first = 0 if job.process_group else 1
    told = recorder.Recorder(send, job.filename, first, delays)
    dispatcher.prepare()  # done already, in the server
    if proxy is None:
        recorder.install(told)
        joining.install(told, os.environ.get("MASTER_ADDR"), job.rank)
    else:
        remote_group.install(send, *proxy, job.filename, job.rank, job.world_size)
    if flavour.by_horovod(job.flavour):
        os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(int(job.gloo_timeout)))
        interface = os.environ.get("GLOO_SOCKET_IFNAME", "")
        os.environ.setdefault("HOROVOD_GLOO_IFACE", interface)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", interface)
    flavour.preload(job.flavour)  # done already, except in servers of other flavours
    if flavour.with_tensorflow(job.flavour):
        warm_tensorflow.set_threads(job.threads)
    if flavour.by_horovod(job.flavour):
        horovod_recorder.install(told, job.flavour)
    send(["begin", time.monotonic()])


def delays_of(job: Job) -> tuple[float, Iterator[float]]:
    """Seconds to wait before the drive, and before each of the rank's calls."""
    if job.delays is None:
        return 0.0, iter(())
    waits = list(_delays(job.delays, job.rank, job.world_size))
    first = 1 if job.process_group else 0  # the engine's own call comes before the drive
    at_start = waits.pop(first) if len(waits) > first else 0.0
    return at_start, iter(waits)


def _delays(seed: int, rank: int, world_size: int) -> Iterator[float]:
    """Seconds to wait before the drive and before each of the rank's calls: long ones at first.

    0.2 s in all. They expose code that relies on the ranks' timing: the ranks begin one after the
    other, evenly spread over 0.05 s, in an order of the seed's.
    """
    place = random.Random(seed).sample(range(world_size), world_size)[rank]
    first = 0.05 * place / max(world_size - 1, 1)
    yield first
    draw = random.Random(f"{seed} {rank}")
    left = 0.2 - first
    for longest in itertools.chain([0.05], itertools.repeat(0.01)):
        wait = draw.choice((0.0, draw.uniform(0.0, longest)))
        if wait > left:
            return
        left -= wait
        yield wait


def _set_up(
    job: Job, gate: Gate | None, page: Page | None
) -> tuple[Callable[..., Any], list[Any], Tracker | None]:
    """The drive, its arguments, and what counts the rank's tensors, where that is asked for."""
    drive = pickle.loads(job.drive)
    given = []
    tracker = None
    if gate is not None:  # what the engine takes comes before: the group, the inputs
        given = _inputs(job)
        _make_group(job)
        allocator.give_back()
        gate.pass_through()
    if page is not None:
        told = recorder.current()
        tracker = Tracker(page, told.line if told is not None and job.limited else None)
        tracker.install()
    arguments = []
    if job.answer is not None:
        held = None
        if job.rules is not None:
            held = enforce.install(job.rules, job.answer, job.filename)
        arguments.append(as_module(job.answer, job.filename, held))
    if gate is None:
        given = _inputs(job)
        _make_group(job)
    return drive, arguments + given, tracker


def _run(drive: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    value = drive(*arguments)
    recorder.settle()
    try:
        encoded = encoding.encode(value)
    except encoding.NotPlain as error:
        return ["refused", str(error)]
    # Else the parent would refuse it, and all that comes after
    return ["value", encoded] if len(encoded) <= MAX_VALUE else ["refused", TOO_LARGE]


def _inputs(job: Job) -> list[Any]:
    return [] if job.inputs is None else [inputs.load(job.inputs)]


def _make_group(job: Job) -> None:
    if job.process_group and flavour.by_horovod(job.flavour):
        horovod_recorder.framework(job.flavour).init()
    elif job.process_group:
        met = None  # on several machines: at MASTER_ADDR
        if job.proxied:
            met = dist.HashStore()  # proxies meet elsewhere, where no rank comes
        elif job.store:
            met = dist.FileStore(job.store, job.world_size)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if not job.store and torch.cuda.is_available() else "gloo",
            store=met,
            rank=job.rank,
            world_size=job.world_size,
            timeout=timedelta(seconds=job.gloo_timeout),
        )


def _raised(error: BaseException, filename: str) -> list[Any]:
    line = None
    for entry, number in traceback.walk_tb(error.__traceback__):
        if entry.f_code.co_filename == filename:
            line = number
    if isinstance(error, SyntaxError) and error.filename == filename:
        line = error.lineno
    # The engine's own frames do not help a learner
    shown = error.__traceback__
    while shown is not None and shown.tb_frame.f_code.co_filename == __file__:
        shown = shown.tb_next
    text = "".join(traceback.format_exception(type(error), error, shown))
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else 0 if error.code is None else 1
        return ["exit", code, line]
    try:
        message = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:  # an exception whose __str__ raises
        message = ""
    with contextlib.suppress(Exception):
        message = _with_cause(error, message)
    if len(message) > MESSAGE:  # the end often has the cause
        message = f"{message[: MESSAGE // 2]}\n{message[-MESSAGE // 2 :]}"
    return ["raised", type(error).__name__, message, line, text[-8000:]]


def _with_cause(error: BaseException, message: str) -> str:
    """The message of `error`, and below it what began it all: the innermost `raise … from` or, of a
    group, its first exception."""
    cause = error
    for _ in range(100):  # a chain may be a ring
        inner = cause.__cause__ or next(iter(getattr(cause, "exceptions", ())), None)
        if not isinstance(inner, BaseException):
            break
        cause = inner
    if cause is error or str(cause) in message:
        return message
    return f"{message}\n{type(cause).__name__}: {cause}"
