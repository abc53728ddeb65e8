"""Strong scaling: Amdahl's model of the time on p ranks."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Amdahl:
    """Work of which `parallel` seconds can be shared out among ranks and `serial` seconds cannot.

    Amdahl 1967, Validity of the single processor approach to achieving large scale computing
    capabilities: the serial part bounds the speed-up, whatever the number of ranks.
    """

    serial: float
    parallel: float

    def seconds(self, ranks: float) -> float:
        """Seconds of the same work on `ranks` ranks (strong scaling)."""
        return self.serial + self.parallel / ranks

    @property
    def serial_fraction(self) -> float:
        """The serial share of the time that one rank takes."""
        return self.serial / (self.serial + self.parallel)
