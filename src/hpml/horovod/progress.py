"""Progress of Horovod's build: a line that is redrawn on a terminal, one a minute elsewhere."""

import re
import sys
import time
from typing import TextIO

_STEP = re.compile(r"\[(\d+)/(\d+)\] (?:Building \w+ object|Linking) (?:.*/)?(\S+)")
_FRAME = 0.2  # seconds until the line is drawn again
_QUIET = 60.0  # seconds between two lines where there is no terminal
_WIDTH = 79


class Progress:
    """Lines on `out` that begin with `hpml: `, and below them the one that is redrawn."""

    def __init__(self, out: TextIO | None = None):
        self._out = out or sys.stderr
        self._moves = self._out.isatty()
        self._start = self._shown = time.monotonic()
        self._share, self._file = 0.0, ""
        self._drawn = False

    def report(self, text: str) -> None:
        """A line that stays."""
        self._wipe()
        print(f"hpml: {text}", file=self._out, flush=True)

    def begin(self) -> None:
        """Start the clock of the build."""
        self._start = self._shown = time.monotonic()
        self._share, self._file = 0.0, "configuring"

    def line(self, text: str) -> None:
        """Take a line that the build has printed; only Ninja's steps count."""
        if step := _STEP.search(text):
            done, total, name = step.groups()
            self._share, self._file = int(done) / int(total), name.removesuffix(".o")
        now = time.monotonic()
        if now - self._shown < (_FRAME if self._moves else _QUIET):
            return
        self._shown = now
        elapsed = int(now - self._start)
        text = f"Horovod {self._share:4.0%}  {elapsed // 60}:{elapsed % 60:02}  {self._file}"
        if self._moves:
            self._out.write(f"\r\x1b[K{text[:_WIDTH]}")
            self._out.flush()
            self._drawn = True
        else:
            self.report(text)

    def end(self) -> None:
        """Erase the redrawn line."""
        self._wipe()

    def _wipe(self) -> None:
        if self._drawn:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._drawn = False
