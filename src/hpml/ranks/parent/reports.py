"""What the supervisor of a launch reports to the parent, beside how its ranks ended."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from hpml.ranks.evidence import Traffic


@dataclass(slots=True)
class Reports:
    """All that was reported so far; lists are by rank. An empty reason: it did not happen."""

    failed: str = ""  # why the launch cannot go on
    gone: bool = False  # all its processes
    paused: bool = False  # it counts nothing until the next drive
    killed: int | None = None  # the rank that the launch was told to kill
    no_kill: str = ""
    broken: str = ""
    left: dict[str, int] | None = None  # files
    peaks: Sequence[int | None] = ()  # bytes
    set_back: Sequence[int] = ()  # ranks that have set their own peak back
    live: Sequence[dict[str, Any] | None] = ()  # pages of live tensors
    limited: str = ""
    no_link: str = ""
    traffic: dict[str, list[Traffic]] = field(default_factory=dict)  # since the launch began
    _earlier: dict[str, list[Traffic]] = field(default_factory=dict)  # of that, in earlier drives

    def take(self, message: dict[str, Any]) -> None:
        """Take in one message."""
        for name, value in message.items():
            if name == "failed":  # the first leads to the others
                self.failed = self.failed or value
            elif name == "traffic":
                self.traffic = {of: [Traffic(*c) for c in each] for of, each in value.items()}
            else:
                setattr(self, name, value)

    def begin_again(self) -> None:
        """Another drive begins: what has gone over the links so far is not of it."""
        self._earlier, self.paused = self.traffic, False

    def traffic_of(self, what: str) -> list[Traffic]:
        """What went over the links of "ranks", or of "nodes", in this drive."""
        now, earlier = self.traffic.get(what, []), self._earlier.get(what)
        return now if earlier is None else list(map(_less, now, earlier))


def _less(now: Traffic, earlier: Traffic) -> Traffic:
    return Traffic(*(n - e for n, e in zip(astuple(now), astuple(earlier), strict=True)))
