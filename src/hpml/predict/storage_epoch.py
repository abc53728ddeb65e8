"""How long an epoch's reading takes on a shared file system: opens or bytes, whichever binds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SharedStorage:
    """A parallel file system as three numbers, shared by all who use it.

    `opens_per_second` is what its metadata servers answer, `latency` the seconds until one open is
    answered, `bandwidth` bytes/s of all its data servers together.
    """

    opens_per_second: float
    latency: float
    bandwidth: float

    def rate(self, clients: int) -> float:
        """Opens per second of `clients` that each wait for one open before the next.

        min(clients / (latency + 1 / opens_per_second), opens_per_second)
        """
        alone = 1 / (self.latency + 1 / self.opens_per_second)
        return min(clients * alone, self.opens_per_second)

    def epoch_seconds(self, files: int, nbytes: float, clients: int) -> float:
        """Seconds to open `files` files and to read `nbytes` from them: the longer of the two."""
        return max(files / self.rate(clients), nbytes / self.bandwidth)
