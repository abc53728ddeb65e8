"""A metadata server played by waiting: what an open costs on a file system that many nodes share.

Nothing of a real file system is in it but two numbers. An answer takes `latency` seconds to come,
however idle the server is, and the server gives `rate` answers per second, however many clients
ask.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor


class PlayedServer:
    """One server for all threads of this process. `open` takes its time and does nothing."""

    def __init__(self, latency: float, rate: float):
        self.latency, self.rate = latency, rate
        self.answered = 0
        self._free = 0.0
        self._lock = threading.Lock()

    def open(self, _: object = None) -> None:
        """Wait for one answer: the server's turn, then the way there and back."""
        with self._lock:
            now = time.monotonic()
            self._free = max(now, self._free) + 1 / self.rate
            until = self._free + self.latency
            self.answered += 1
        time.sleep(max(0.0, until - now))


def opens_per_second(server: PlayedServer, clients: int, opens: int) -> float:
    """What `clients` threads get together, each of which opens one file after the other."""
    began = time.monotonic()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(server.open, range(opens)))
    return opens / (time.monotonic() - began)
