"""Signals that ask a run for a checkpoint: SIGUSR1 (and carry on) and SIGTERM (and stop).

SLURM sends SIGTERM before it takes a node away, and any signal some time before a job's limit
(`--signal=USR1@120`); both leave time enough for a checkpoint.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import torch

from hpml.train import backends

NOTHING, SAVE, SAVE_AND_STOP = 0, 1, 2
SIGNALS = {signal.SIGUSR1: SAVE, signal.SIGTERM: SAVE_AND_STOP}
# Ranks get the signal at different moments, some perhaps not at all, and must agree on the step.
# Asking costs a small all-reduce, so not in every step.
STEPS_BETWEEN_QUESTIONS = 10


class Requests:
    """What this rank has been asked for since it last looked."""

    def __init__(self) -> None:
        self.asked = NOTHING

    def note(self, number: int, frame: FrameType | None = None) -> None:
        self.asked = max(self.asked, SIGNALS[signal.Signals(number)])

    def agreed(self, step: int, device: torch.device) -> int:
        """The most that any rank was asked for: one answer on all ranks, which all call this."""
        backend = backends.there()
        if backend.world_size == 1:
            answer, self.asked = self.asked, NOTHING
            return answer
        if step % STEPS_BETWEEN_QUESTIONS:
            return NOTHING
        mine, self.asked = self.asked, NOTHING
        most = torch.tensor(mine, device=device)
        backend.maximum(most)
        return int(most)


@contextlib.contextmanager
def listen(wanted: bool) -> Iterator[Requests]:
    """Note the signals from here on, instead of dying of them, if `wanted`."""
    requests = Requests()
    # Python lets only the main thread handle signals.
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield requests
        return
    before = {number: signal.signal(number, requests.note) for number in SIGNALS}
    try:
        yield requests
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
