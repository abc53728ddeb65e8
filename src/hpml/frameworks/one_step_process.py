"""One way to take the step, in a process of its own: other libraries' threads do not disturb it.

`WayProcess` starts it and asks it to run; between two questions it sleeps.
"""

import contextlib
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType

import numpy as np

from hpml.errors import UserError
from hpml.frameworks import one_step
from hpml.frameworks.run import end, first_error

TRAIN, PREDICT = "train", "predict"
FIRST = 3  # steps that are compared with those of other ways
# Not -m, which would make the classes below those of __main__, and no other process has them.
CODE = f"import sys; from {__name__} import main; main(*sys.argv[1:])"
START_LIMIT, RUN_LIMIT = 600.0, 300.0  # seconds, to compile and to run


@dataclass(frozen=True)
class Started:
    """What a way did at first. `prepared`: seconds of the first run, and of all that comes before
    it: export, compilation. `losses` of the first steps and the `weights` after them, or, where it
    only predicts, `logits`."""

    prepared: float
    losses: list[float] = field(default_factory=list)
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    logits: np.ndarray | None = None


class WayProcess:
    """A process that runs `way`, "module.function" of this room, on what `given` is a file of.

    With `trains` it takes training steps, else it predicts. Its log and what it compiles are put
    beside `given`. Use as a context: it has ended after.
    """

    def __init__(self, way: str, given: Path, trains: bool, threads: int = 1):
        self.way = way
        what = TRAIN if trains else PREDICT
        self._log = given.with_name(f"{way} {what}.log")
        self._connection, theirs = Pipe()
        with self._log.open("wb") as log, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", CODE, way, str(given), what, str(theirs.fileno())],
                env=os.environ | _environment(threads, given.parent),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> "WayProcess":
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        end(self._process)

    def started(self) -> Started:
        """Wait until it is ready. Raises UserError with its first error where it fails."""
        return self._answer(START_LIMIT)

    def run(self, times: int) -> float:
        """Seconds of one of so many runs, their mean. Raises UserError where it fails."""
        with contextlib.suppress(OSError):  # it has ended: its log says why
            self._connection.send(times)
        return self._answer(RUN_LIMIT)

    def _answer(self, limit: float):
        try:
            if self._connection.poll(limit):
                return self._connection.recv()
            why = f"no answer in {limit:g} s"
        except (EOFError, OSError):
            why = first_error(self._log.read_text(errors="replace"))
            if "No working C++ compiler" in why:
                why = "there is no C++ compiler: apt install g++, or conda install gxx"
        raise UserError(f"{self.way}: {why}")


def _environment(threads: int, folder: Path) -> dict[str, str]:
    return {
        "OMP_NUM_THREADS": str(threads),
        "TF_NUM_INTRAOP_THREADS": str(threads),
        "TF_NUM_INTEROP_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # Nothing from an earlier compilation, and nothing left of this one
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TMPDIR": str(folder),  # precompiled headers
    }


def main(way: str, given: str, what: str, descriptor: str) -> None:
    """Answer with what was `Started`, then to each number of runs with the seconds of one."""
    connection = Connection(int(descriptor))
    module, _, name = way.partition(".")
    data = one_step.read(Path(given))
    library = importlib.import_module(f"{__package__}.{module}")  # importing is not preparing
    began = time.perf_counter()
    running = getattr(library, name)(data)
    if what == TRAIN:
        losses = [running.step()]
        prepared = time.perf_counter() - began
        losses += [running.step() for _ in range(FIRST - 1)]
        connection.send(Started(prepared, losses, running.weights()))
        work = running.step
    else:
        logits = running.forward()
        connection.send(Started(time.perf_counter() - began, logits=logits))
        work = running.forward
    with contextlib.suppress(EOFError):  # whoever asks has gone
        while True:
            times = connection.recv()
            began = time.perf_counter()
            for _ in range(times):
                work()
            connection.send((time.perf_counter() - began) / times)
