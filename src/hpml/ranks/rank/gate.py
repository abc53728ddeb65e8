"""Where a rank waits, just before its drive, until the supervisor has noted what it holds."""

import contextlib
import socket


class Gate:
    """Made before the fork of the rank. It opens once: what runs there later cannot ask again."""

    def __init__(self) -> None:
        self._outside, self._inside = socket.socketpair()

    def fileno(self) -> int:
        """In the supervisor: what can be read when the rank stands there, or is gone."""
        return self._outside.fileno()

    def keep_outside(self) -> None:
        """In the supervisor, after the fork."""
        self._inside.close()

    def keep_inside(self) -> None:
        """In the rank, after the fork."""
        self._outside.close()

    def leave(self) -> None:
        """In all other processes."""
        self._inside.close()
        self._outside.close()

    def is_waiting(self) -> bool:
        """In the supervisor: whether the rank stands there; False where it is gone."""
        try:
            return bool(self._outside.recv(1))
        except OSError:
            return False

    def open(self) -> None:
        """In the supervisor: let the rank go on, and be done with it."""
        with contextlib.suppress(OSError):  # the rank is gone
            self._outside.sendall(b"g")
        self._outside.close()

    def pass_through(self) -> None:
        """In the rank: wait until it opens. Raises EOFError where the supervisor is gone."""
        self._inside.sendall(b"w")
        if not self._inside.recv(1):
            raise EOFError("the supervisor ended")
        self._inside.close()
