"""Ranks that stay when their drive has ended, and run it once more, on other inputs.

    staying = Staying()
    launch(drive, 4, inputs=first, staying=staying)
    staying.again(second)
    staying.stop()

Drive, process group, links and limits are those of the launch; what a drive holds on a rank is
there when it runs again. Each run has its own time limit, diagnosis and evidence.
"""

import atexit
import contextlib
import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hpml.ranks.channel import frame
from hpml.ranks.evidence import Diagnosis, Evidence
from hpml.ranks.inputs import dump
from hpml.ranks.job import Again
from hpml.ranks.parent import diagnose, warm
from hpml.ranks.parent.running import END_LIMIT, Running
from hpml.ranks.parent.settled import settled
from hpml.ranks.parent.watch import Watched

INTERRUPT_LIMIT = 3.0  # seconds for ranks to end after an interrupt


class StayingRun(Running):
    """As `Running`, and ranks that can run their drive once more are not ended with it."""

    def again(
        self,
        inputs: Sequence[Any],
        watched: Watched,
        timeout: float,
        on_output: Callable[[int, str], None] | None,
    ) -> None:
        """Begin another run, which `until_ended` then takes in by itself."""
        self._words, self._on_output = watched.words, on_output
        self._reports.begin_again()
        before, self._started = self._started, time.monotonic()
        self._logs = [log.next(self._started + log.started - before) for log in self._logs]
        for reader in self._readers:
            reader.refill()
        self._turn(0.0)  # what came since the last run
        afresh = settled(self._logs)
        if afresh:
            self._agreement = diagnose.Agreement()
            for log in self._logs:
                log.forget_earlier()
        self._watch = self._new_watch(watched, timeout)
        if self._find is not None:
            self._watch.forked(*self._find)
            self._watch.have_run_before()
        if self._supervisor_gone or any(log.end is not None for log in self._logs):
            return  # a rank has ended since, and the others could only wait for it
        with contextlib.suppress(OSError):  # it is gone, which is noticed soon
            self._control.sendall(b"again\n")
        for rank, each in enumerate(inputs):
            job = Again(dump(each), watched.filename, afresh)
            self._send(rank, frame(pickle.dumps(job)))

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the ranks that are at work, which then have some seconds."""
        self._watch.interrupt(INTERRUPT_LIMIT)

    @property
    def paused(self) -> bool:
        """Whether the ranks have come to the end of a run, and can begin the next one."""
        return self._reports.paused and not self.closed

    @property
    def closed(self) -> bool:
        """Whether the ranks, and all that leads to them, are gone."""
        return self._selector.get_map() is None

    @property
    def pids(self) -> Sequence[int]:
        """Of the ranks, by rank."""
        return self._watch.pids

    def _wind_up(self, diagnosis: Diagnosis | None) -> None:
        """End the ranks, unless all have come to the end of the drive, and, where one of them
        raised, no call was under way in which others wait for it; and unless one cannot be
        understood any more."""
        at_its_end = all(log.set_up and log.end in ("returned", "raised") for log in self._logs)
        heard = not any(reader.broken for reader in self._readers)
        stay = at_its_end and heard and (diagnosis is None or settled(self._logs))
        if not (stay and self._pause()):
            self._end()

    def _pause(self) -> bool:
        """Take in what was counted, and what ranks have printed: all of it came before their ends,
        and a pipe holds no more than is read at once. False where the supervisor is gone."""
        deadline = time.monotonic() + END_LIMIT
        with contextlib.suppress(OSError):  # the supervisor is gone
            self._control.sendall(b"pause\n")
        while not self._reports.paused:
            if self._supervisor_gone or time.monotonic() > deadline:
                return False
            self._turn(0.5)
        return True


class Staying:
    """The ranks of one launch, for as long as they stay. They end with this process, too."""

    def __init__(self) -> None:
        self._run: StayingRun | None = None
        self._process = os.getpid()

    def begin(self, run: StayingRun) -> Evidence:
        """The first run, which a launch has begun."""
        self._run = run
        atexit.register(self.stop)  # before the server's own end, which would wait for them
        with self._unless_paused(run):
            return _until_ended(run)

    def again(
        self,
        inputs: Sequence[Any],
        *,
        watched: Watched,
        timeout: float = 60.0,
        on_output: Callable[[int, str], None] | None = None,
    ) -> Evidence:
        """Have the ranks run their drive once more, on `inputs`, one per rank.

        Other arguments as `launch` has them. Raises RuntimeError where no ranks have stayed,
        `warm.ServerDied` where their supervisor is gone.
        """
        run = self._run
        if run is None:
            raise RuntimeError("no ranks have stayed")
        with self._unless_paused(run):
            run.again(inputs, watched, timeout, on_output)
            return _until_ended(run)

    @property
    def here(self) -> bool:
        """Whether ranks have stayed."""
        return self._run is not None

    @property
    def pids(self) -> Sequence[int]:
        """Of the ranks, by rank; none where they have ended."""
        return () if self._run is None else self._run.pids

    def stop(self) -> None:
        """End the ranks, if they are still there."""
        run, self._run = self._run, None
        atexit.unregister(self.stop)
        if run is not None and self._process == os.getpid():  # and not in a fork of this one
            with run:
                pass

    @contextlib.contextmanager
    def _unless_paused(self, run: StayingRun) -> Iterator[None]:
        """However a run ends: stop ranks that cannot begin another one."""
        try:
            yield
        finally:
            if not run.paused:
                self.stop()


def _until_ended(run: StayingRun) -> Evidence:
    """After an interrupt, the ranks are interrupted too: they may have come to the end then."""
    try:
        return run.until_ended()
    except KeyboardInterrupt:
        if not run.closed:
            run.interrupt()
            with contextlib.suppress(warm.ServerDied):  # the first interrupt came as they ended
                run.until_ended()
        raise
