"""Whether the ranks of a launch still get anywhere, and where they stand when they do not."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from hpml.network.emulation import INTERFACE
from hpml.ranks import stationary
from hpml.ranks.evidence import Diagnosis
from hpml.ranks.flavour import HOROVOD_THREADS, Flavour, by_horovod
from hpml.ranks.job import MOST_WITHOUT_CORE, SAMPLE_SIGNAL, STACK_SIGNAL
from hpml.ranks.parent import diagnose, groups, messages, movement
from hpml.ranks.parent.leash import Leash
from hpml.ranks.parent.ledger import RankLog

LOOK_EVERY = 0.1  # seconds between two looks at what moves
STOOD_STILL = 1.0  # seconds between two looks: the ranks had no time either
MEET = 6.0  # seconds in which ranks that have all come meet, if they name the same place
QUIET = 1.0  # seconds without movement after which a launch that cannot go on is ended
FAR = 2.0  # the same where what a rank says comes over a network
LOST = 1.8  # the same where a message may be under way from an isend that nobody waits for yet
# The same where ranks talk over links in ways that are not recorded: a rank that is refused,
# because the other is not there yet, tries again seconds later (gRPC, for TensorFlow, after 1, 1.6,
# 2.6...)
QUIET_UNSEEN = 20.0
ARRIVING = 500  # bytes over a rank's own link that count as movement, more than idle chatter
WORKING = 0.03  # seconds of processor time within those that count as movement
GRACE = 0.15  # seconds in which the others may still end, once one rank has ended badly
MOST_GRACE = 1.0  # seconds, for those that are still getting somewhere
FAR_GRACE = 5.0  # seconds for the end of a rank that others have lost to be known from far away
BEFORE_LOOPS = 0.3  # seconds without a call after which a rank is looked at for an endless loop
EQUAL_LOOKS = 10  # that prove a loop endless
STACK_LIMIT = 0.3  # seconds for a rank to write its stack


@dataclass(frozen=True)
class Watched:
    """The code whose lines a diagnosis names: the learner's own."""

    filename: str
    source: str | None = None
    words: str = "of the code"


class Watch:
    """Looks at the ranks' logs, processes and stacks. Times are those of `time.monotonic`.

    `moved` is set by the reader of the ranks' events. `linked`: each rank
    has a link of its own, on which a message can be under way for long. `flavour` is what the ranks
    communicate with: Horovod has threads of its own, which never end. A `leash` may start the time
    limit later. `quiet`: seconds without movement after which the ranks are taken to be stuck.
    """

    def __init__(
        self,
        logs: Sequence[RankLog],
        watched: Watched,
        timeout: float,
        stack_pipes: Sequence[int],
        started: float,
        linked: bool = False,
        flavour: Flavour = "torch",
        leash: Leash | None = None,
        quiet: float = QUIET,
    ) -> None:
        self._find_pids: Callable[[], Sequence[int]] = tuple
        self._find_on_network: Callable[[], Sequence[int]] = tuple
        self.moved = True  # something was heard since the last look
        self._logs, self._watched, self._timeout = logs, watched, timeout
        self._stack_pipes, self._started = stack_pipes, started
        self._quiet = 0.0  # seconds, up to the last look
        self._meeting = 0.0  # seconds since all ranks have come to where they meet
        self._last_look = started
        self._lost = 0.0  # seconds in which this process stood still, as the ranks may have
        self._without = 0.0  # seconds without a core, the most of all ranks so far
        self._earlier: dict[int, float] = {}  # of these, by pid, in earlier runs
        self._processor: dict[int, float] = {}
        # Horovod's threads poll each other all the time.
        self._bystanders = HOROVOD_THREADS if by_horovod(flavour) else ""
        self._linked = linked and not self._bystanders
        self._in_graphs = flavour == "horovod-tensorflow"
        self._network: dict[int, int] = {}
        self._first_fault: float | None = None
        self._first_loop: float | None = None
        self._leash, self._stuck_after = leash, quiet

    def look(self, now: float) -> Diagnosis | None:
        """Why the launch is to be ended now, or None."""
        words = self._watched.words
        passed, self._last_look = now - self._last_look, now
        if passed > STOOD_STILL:
            self._lost += passed
        if any(log.end not in (None, "returned") for log in self._logs):
            self._first_fault = self._first_fault or now
            waited = now - self._first_fault
            if not self.pids and waited < FAR_GRACE and diagnose.lost_others(self._logs):
                return None
            if waited >= MOST_GRACE or (waited >= GRACE and not self._anybody_moves()):
                return diagnose.fault(self._logs, words)
        if not self._unfinished():
            return None  # the last one has returned, however late
        since = self._started if self._leash is None else max(self._started, self._leash.since)
        over = now - since - self._lost - self._timeout
        if over > 0 and over > self._without_core():
            self._locate_workers()
            return diagnose.limit(self._logs, words, self._timeout)
        if not self.pids:
            return self._unseen(passed)
        moving = [log for log in self._unfinished() if self._moves(log)]
        looping = [log for log in moving if self._loops(log, now)]
        if looping:
            self._first_loop = self._first_loop or now
            others = [log for log in moving if log not in looping]
            if not any(map(_may_loop, others)) or now - self._first_loop >= MOST_GRACE:
                return diagnose.endless_loop(self._logs, looping, words)
        # A late look missed the time before it: on a busy machine this process stood still.
        self._quiet += min(passed, 2 * LOOK_EVERY)
        together = diagnose.all_meet(self._logs)
        self._meeting = self._meeting + min(passed, 2 * LOOK_EVERY) if together else 0.0
        if moving or (self.moved and self._meeting <= MEET):  # who looks for rank 0 prints warnings
            self.moved, self._quiet = False, 0.0
        known = self._meeting > MEET or self._never_meet()
        if self._quiet < (QUIET if known else self._stuck_after):
            return None
        lost = any(messages.never_waited_for(log, self._logs) for log in self._unfinished())
        if lost and self._quiet < LOST:
            return None
        for log in self._unfinished():
            log.wait_for_what_is_open()
        self._locate_workers()
        return diagnose.hang(self._logs, words)

    def _unseen(self, passed: float) -> Diagnosis | None:
        """As `look`, where no processes can be looked at: they are on other machines, or not forked
        yet. Then only what follows from the ranks' calls is sure."""
        self._quiet = 0.0 if self.moved else self._quiet + min(passed, 2 * LOOK_EVERY)
        self.moved = False
        if self._quiet < FAR or any(
            log.waiting is None or diagnose.can_complete(log, self._logs)
            for log in self._unfinished()
        ):
            return None
        return diagnose.hang(self._logs, self._watched.words)

    def flood(self) -> Diagnosis | None:
        """Ranks that print without end, with the line that each is at; or None."""
        words = self._watched.words
        if diagnose.flood(self._logs, words) is None:
            return None
        self._locate_workers()
        return diagnose.flood(self._logs, words)

    def forked(
        self, find_pids: Callable[[], Sequence[int]], find_on_network: Callable[[], Sequence[int]]
    ) -> None:
        """The ranks have processes now: `find_pids` returns their pids by rank, 0 for one gone;
        `find_on_network` those of the processes that are on the ranks' links.

        It is called late or never: it may search all of /proc, and most launches end before that.
        """
        self._find_pids, self._find_on_network = cache(find_pids), cache(find_on_network)

    def have_run_before(self) -> None:
        """Where the ranks have stayed: what they waited for a core until now was of another run."""
        self._earlier = {pid: movement.seconds_without_core(pid) for pid in self.pids}

    def interrupt(self, limit: float) -> None:
        """Interrupt the ranks that are at work; their time is over `limit` seconds from now."""
        self._timeout = time.monotonic() - self._started - self._lost + limit
        for log in self._unfinished():
            if self.pids and log.begun:
                self._signal(log.rank, signal.SIGINT)

    @property
    def pids(self) -> Sequence[int]:
        """By rank; none before the ranks are forked."""
        return self._find_pids()

    def stacks(self, only: Sequence[RankLog] | None = None) -> dict[int, str]:
        """The Python stacks of the ranks that are still there, as faulthandler writes them."""
        logs = self._unfinished() if only is None else only
        # A rank that has not begun has no handler for the signal yet, and would be killed by it.
        pipes = {log.rank: self._stack_pipes[log.rank] for log in logs if self.pids and log.begun}
        for rank, pipe in pipes.items():
            _read(pipe)  # what is left of an earlier time
            self._signal(rank, STACK_SIGNAL)
        deadline = time.monotonic() + STACK_LIMIT
        texts = dict.fromkeys(pipes, b"")
        writing = set(pipes)
        while writing and time.monotonic() < deadline:
            time.sleep(0.002)
            for rank in list(writing):
                more = _read(pipes[rank])
                texts[rank] += more
                if texts[rank] and not more:
                    writing.remove(rank)
        return {
            rank: _as_traceback(text.decode("utf-8", "replace"))
            for rank, text in texts.items()
            if text
        }

    def _without_core(self) -> float:
        """Seconds that are not the ranks' own: the most that one of them had to wait for a core, it
        may have returned since.

        At most twice the limit, so that a launch ends whatever the ranks do.
        """
        pids = [self.pids[log.rank] for log in self._unfinished()] if self.pids else []
        waited = [movement.seconds_without_core(pid) - self._earlier.get(pid, 0.0) for pid in pids]
        self._without = max(self._without, *waited, 0.0)
        return min(self._without, MOST_WITHOUT_CORE * self._timeout)

    def _unfinished(self) -> list[RankLog]:
        return [log for log in self._logs if log.end is None]

    def _never_meet(self) -> bool:
        """Whether all that are left stand where they are to meet, and ask for what never meets."""
        left = self._unfinished()
        return diagnose.all_meet(left) and not any(
            diagnose.can_complete(log, self._logs) for log in left
        )

    def _anybody_moves(self) -> bool:
        return bool(self.pids) and any(self._moves(log) for log in self._unfinished())

    def _moves(self, log: RankLog) -> bool:
        """Whether the rank gets anywhere, or will by itself."""
        if not log.begun:
            return True  # still being forked
        if self._meeting > MEET:
            return False
        if log.grouping and not groups.can_be_made(log, self._logs):
            return False
        if log.waiting is not None:
            # Polling for the others is not movement, whatever processor time it takes.
            if not diagnose.can_complete(log, self._logs):
                return False
            # Where nobody waits for the other side, that may be lost. Then no byte travels; but a
            # thread of Gloo's may look for ever at bytes that nobody has a place for. So where the
            # members of a group may have met others, who have made another one at that time.
            lost = messages.never_waited_for(log, self._logs) or groups.differ(self._logs)
            if not lost:
                return True
            return self._linked and self._carries(log)
        pid = self.pids[log.rank]
        family = self._quiet > QUIET / 2  # looking for children takes a while
        used = movement.processor_seconds(pid, family, self._bystanders)
        if used - self._processor.get(log.rank, 0.0) > WORKING:
            self._processor[log.rank] = used
            return True
        if self._linked and self._carries(log):
            return True
        if self._in_graphs and any(
            diagnose.can_complete(log, self._logs, call)
            for call in log.calls
            if call.finished is None
        ):
            return True  # TensorFlow waits for what its graph has submitted out of our sight
        return movement.is_busy(pid, self._bystanders, family)

    def _carries(self, log: RankLog) -> bool:
        """Whether something has gone over the rank's link since the last time."""
        carried = movement.network_bytes(self._find_on_network()[log.rank], INTERFACE)
        if carried - self._network.get(log.rank, 0) <= ARRIVING:
            return False
        self._network[log.rank] = carried
        return True

    def _loops(self, log: RankLog, now: float) -> bool:
        """Whether several looks found the rank in a loop in which nothing changes."""
        source = self._watched.source
        last = max((max(c.issued, c.finished or 0.0) for c in log.calls[-1:]), default=0.0)
        quiet = now - self._started - last
        # A rank that has not begun has no handler for the signal yet, and would be killed by it.
        if source is None or not log.begun or log.waiting is not None or quiet < BEFORE_LOOPS:
            log.samples.clear()
            return False
        recent = log.samples[-EQUAL_LOOKS:]
        if (
            len(recent) == EQUAL_LOOKS
            and len({fingerprint for _, fingerprint in recent}) == 1
            and all(line and stationary.never_ends(source, line) for line, _ in recent)
        ):
            log.line = min(line for line, _ in recent if line)
            return True
        self._signal(log.rank, SAMPLE_SIGNAL)
        return False

    def _signal(self, rank: int, number: int) -> None:
        pid = self.pids[rank] if self.pids else 0
        if pid > 0:  # else it is gone, and 0 would be ourselves
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _locate_workers(self) -> None:
        """Set `line` of the ranks that are in no collective, from their stacks."""
        workers = [log for log in self._unfinished() if log.waiting is None]
        watched = re.escape(self._watched.filename)
        for rank, text in self.stacks(workers).items():
            lines = re.findall(rf'File "{watched}", line (\d+)', text)
            self._logs[rank].line = int(lines[-1]) if lines else None


def _may_loop(log: RankLog) -> bool:
    """Whether the looks at a rank have found no change so far, and are too few to prove a loop."""
    return len({fingerprint for _, fingerprint in log.samples}) == 1 and (
        len(log.samples) < EQUAL_LOOKS
    )


def _read(pipe: int) -> bytes:
    """What is in the pipe now, 64 kB at most: a rank may write more, and is not waited for."""
    try:
        return os.read(pipe, 2**16)
    except BlockingIOError:
        return b""


def _as_traceback(text: str) -> str:
    """A faulthandler dump's main thread, in the order of a traceback: most recent call last."""
    threads = re.split(r"\n(?=(?:Current thread|Thread) )", text.strip())
    head, *frames = threads[-1].splitlines()  # faulthandler lists the main thread last
    return "\n".join([head.replace("recent call first", "recent call last"), *reversed(frames)])
