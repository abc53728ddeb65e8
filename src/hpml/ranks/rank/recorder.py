"""What writes a rank's ledger: in its proxy, where it has one, else in the rank itself.

Also the moments that a drive names.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from time import monotonic, sleep  # by value: an answer may replace them in `time`
from types import FrameType
from typing import Any

import torch

from hpml.ranks.evidence import MEETING
from hpml.ranks.rank.sizes import Carried, measure


class Recorder:
    """Writes the ledger of one rank: numbers its calls and hands each event to `send`.

    `send` takes one event, a list of plain values, and may be called from any thread.
    `watched` is the file name of the code whose lines a learner knows. Calls count from `first`: 0
    where the engine itself makes the default group, so that the learner's own begin at 1. Before
    each call the rank sleeps for the next of the `delays`, in seconds, as long as there are some.
    """

    def __init__(
        self,
        send: Callable[[list[Any]], None],
        watched: str,
        first: int = 1,
        delays: Iterator[float] | None = None,
    ) -> None:
        self._send = send
        self._watched = watched
        self._delays = iter(()) if delays is None else delays
        self._lock = threading.Lock()
        self._calls = first - 1
        self._sequences: dict[Any, int] = {}
        self._futures: dict[int, torch.futures.Future] = {}

    def begin_again(self, watched: str, afresh: bool) -> None:
        """Another run begins, with lines of the file `watched`. `afresh`: no call so far belongs to
        one to come."""
        self._watched = watched
        if afresh:
            with self._lock:
                self._sequences.clear()

    def line(self) -> int | None:
        """The innermost line of the watched file on the main thread's stack, if there is one."""
        frame: FrameType | None = sys._getframe(1)
        if threading.current_thread() is not threading.main_thread():
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
        while frame is not None:
            if frame.f_code.co_filename == self._watched:
                return frame.f_lineno
            frame = frame.f_back
        return None

    def enter(
        self,
        operation: str,
        group: tuple[int, ...],
        tensors: Sequence[torch.Tensor] = (),
        reduction: str = "",
        *,
        root: int | None = None,
        peer: int | None = None,
        tag: int = 0,
        tensor: str = "",
        carried: Carried | None = None,
        kept: int = 0,
        meets: list[Any] | None = None,
    ) -> int:
        """Record that a call begins, as `Call` has it; returns its index.

        Messages are counted by sender, receiver and tag, and calls with a `tensor`, a name, by
        that: so they are matched. `carried` is the data put in, where it is in no tensor of torch;
        `kept` are the bytes of it that the rank puts in for itself. `meets`: as
        `hpml.ranks.rank.meeting.asked` has it."""
        carried = carried or measure(tensors)
        if (wait := next(self._delays, 0.0)) > 0:
            sleep(wait)
        with self._lock:
            self._calls += 1
            index = self._calls
            alone = peer is not None or operation in MEETING
            key = (group, operation, peer, tag) if alone else (group, tensor)
            self._sequences[key] = sequence = self._sequences.get(key, 0) + 1
            event = [
                "call",
                index,
                operation,
                list(group),
                sequence,
                carried.dtype,
                list(carried.shape),
                carried.nbytes,
                reduction,
                self.line(),
                monotonic(),
                tensor,
                kept,
                root,
                peer,
                tag,
                *(meets or ()),
            ]
            self._send(event)
        return index

    def wait(self, index: int) -> None:
        """Record that the rank now waits for call `index`."""
        self._send(["wait", index, monotonic()])

    def finish(self, index: int) -> None:
        """Record that call `index` is complete."""
        self._futures.pop(index, None)
        self._send(["done", index, monotonic()])

    def expect(self, index: int, future: torch.futures.Future) -> None:
        """Call `index` will be finished by a callback of `future`, on another thread."""
        self._futures[index] = future
        future.add_done_callback(lambda _: self.finish(index))

    def settle(self, limit: float = 0.2) -> None:
        """Let the callbacks of completed futures run before the rank ends."""
        deadline = monotonic() + limit
        while monotonic() < deadline and any(f.done() for f in [*self._futures.values()]):
            sleep(0.001)

    def grouping(self, ranks: Sequence[int]) -> None:
        """Record that the rank begins to make a group of `ranks`. It is no call of a group."""
        self._send(["grouping", self.line(), *ranks])

    def grouped(self) -> None:
        """Record that the group is made."""
        self._send(["grouped"])

    def mark(self, name: str) -> None:
        self._send(["mark", str(name), monotonic()])


_recorder: Recorder | None = None


def install(recorder: Recorder) -> None:
    """This process is a rank from now on, and `recorder` writes its ledger."""
    global _recorder
    _recorder = recorder


def current() -> Recorder | None:
    """What writes this rank's ledger; None outside a launch."""
    return _recorder


def begin_again(watched: str, afresh: bool) -> None:
    """Where this rank has stayed: as `Recorder.begin_again`."""
    if _recorder is not None:
        _recorder.begin_again(watched, afresh)


def mark(name: str) -> None:
    """Record this moment in the rank's evidence, as a `Mark` on the clock of its calls.

    Outside a launch it does nothing, so that a drive also runs by itself.
    """
    if _recorder is not None:
        _recorder.mark(name)


def settle() -> None:
    """Before a rank records its end: record first which calls are complete."""
    if _recorder is not None:
        _recorder.settle()
