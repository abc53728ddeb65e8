"""Output that nobody may read to its end: `./hpml grade … | head`."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


@contextlib.contextmanager
def survive_broken_pipe() -> Iterator[None]:
    """Within it, standard output and error are dropped once their reader has gone.

    Otherwise the next line that is printed raises BrokenPipeError, and the work is left undone.
    """
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_surviving, streams)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError):  # None, where it was closed from the start
                stream.flush()
        sys.stdout, sys.stderr = streams


class _Pipe(io.FileIO):
    """A descriptor, written to until its reader goes, and then led to /dev/null."""

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes


def _surviving(stream: TextIO) -> TextIO:
    """The same stream, which its reader may leave; as it is where it has no descriptor."""
    try:
        file = _Pipe(stream.fileno(), "w", closefd=False)
    except (AttributeError, OSError):
        return stream
    with contextlib.suppress(BrokenPipeError):
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=True,
    )
