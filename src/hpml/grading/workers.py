"""Processes that judge submissions side by side.

Each judges one submission at a time: checks draw from torch's global generator and must not
interfere, and a worker that dies takes no other submission with it.
"""

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

from hpml.errors import UserError
from hpml.grading.judging import Judge
from hpml.grading.record import Record
from hpml.grading.submission import Submission
from hpml.ranks.processes import die_with_parent

RENEW_AFTER = 40  # submissions; frees the memory that a worker has gathered
TRIES = 2  # at a submission whose worker died
# Seconds for one exercise of a submission. An answer's sandbox ends far earlier, so that no answer
# can make the whole submission one that could not be graded.
DEADLINE = 3600.0
LOOK_EVERY = 5.0  # seconds between two checks of the deadline
# Imported once, by the process that workers are forked from: 2.5 s of processor time. The last one
# would otherwise be imported by the first optimizer step, when expected values are computed.
PRELOADED = ("hpml.grading.judging", "torch", "torch._dynamo")


class WorkerDied(Exception):
    """A worker ended or failed TRIES times on one submission; the message has the reason."""


@dataclass
class _Worker:
    process: multiprocessing.process.BaseProcess
    connection: Connection
    submission: Submission | None = None
    since: float = 0.0  # when it was given its submission
    done: int = 0


def judged(
    submissions: Sequence[Submission], judge: Judge, jobs: int
) -> Iterator[tuple[Submission, Record | WorkerDied]]:
    """Each submission with its record, as they are done, by `jobs` processes.

    Raises UserError if a worker does (no sandbox can be made). All workers have ended when the
    iterator is closed.
    """
    waiting = deque(submissions)
    deadline = DEADLINE * max(len(judge.exercises), 1)
    tries: dict[str, int] = {}
    workers: list[_Worker] = []
    try:
        while waiting or any(worker.submission for worker in workers):
            while waiting and len(workers) < jobs:
                workers.append(_start(judge))
            for worker in workers:
                if worker.submission is None and waiting:
                    worker.submission, worker.since = waiting.popleft(), time.monotonic()
                    worker.connection.send(worker.submission)
            ready = wait([worker.connection for worker in workers], timeout=LOOK_EVERY)
            late = time.monotonic() - deadline
            for worker in list(workers):
                if worker.connection in ready:
                    outcome = _received(worker)
                elif worker.submission is not None and worker.since < late:
                    outcome = WorkerDied(f"the grader was not done after {deadline:.0f} s")
                else:
                    continue
                submission, worker.submission = worker.submission, None
                if isinstance(outcome, UserError):
                    raise outcome
                assert submission is not None  # else nothing could be received
                if isinstance(outcome, WorkerDied):
                    _end(worker)
                    workers.remove(worker)
                    tries[submission.person] = tries.get(submission.person, 0) + 1
                    if tries[submission.person] < TRIES:
                        waiting.append(submission)
                        continue
                yield submission, outcome
                worker.done += 1
                if worker.done >= RENEW_AFTER and worker in workers:
                    _end(worker)
                    workers.remove(worker)
    finally:
        for worker in workers:
            _end(worker)


def _start(judge: Judge) -> _Worker:
    # This process may have threads and must not fork. multiprocessing's fork server does; it ends
    # when this process does.
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload(list(PRELOADED))
    ours, theirs = context.Pipe()
    arguments = (theirs, judge, dict(os.environ))
    process = context.Process(  # type: ignore[attr-defined]  # typeshed has it in subclasses
        target=_work, args=arguments, daemon=False
    )
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _received(worker: _Worker) -> Record | UserError | WorkerDied:
    try:
        return worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join(timeout=5)
        return WorkerDied(f"the grader's own process ended (exit code {worker.process.exitcode})")


def _end(worker: _Worker) -> None:
    """End a worker and its sandbox: bubblewrap ends when the process that started it does."""
    worker.connection.close()
    worker.process.kill()
    worker.process.join(timeout=10)


def _work(connection: Connection, judge: Judge, environment: dict[str, str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started us
    die_with_parent()
    threading.Thread(target=_end_with_grader, daemon=True).start()
    os.environ.clear()  # it dates from the start of the first worker
    os.environ.update(environment)
    import torch

    torch.set_num_threads(1)
    gc.freeze()  # imports stay; the collector need not traverse them again
    while True:
        try:
            submission = connection.recv()
        except (EOFError, OSError):
            return
        outcome: Record | UserError | WorkerDied
        try:
            outcome = judge.record(submission)
        except UserError as error:
            outcome = error
        except Exception:
            outcome = WorkerDied(traceback.format_exc().strip().splitlines()[-1][:300])
        with contextlib.suppress(OSError):
            connection.send(outcome)


def _end_with_grader() -> None:
    """End this worker, and with it its sandboxes, when the grader's process ends.

    Its parent, the fork server, would run for as long as there is a worker.
    """
    grader = multiprocessing.parent_process()
    if grader is not None:
        wait([grader.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)
