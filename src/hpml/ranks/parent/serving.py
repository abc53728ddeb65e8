"""Requests that ranks make with `hpml.ranks.ask`, logged and answered.

What a rank was given, in which order and when, is known here without the rank's word for it. The
server is trusted code and must check what it is asked: a request may come from anybody's code.
"""

import heapq
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpml.ranks import encoding
from hpml.ranks.channel import frame_reply
from hpml.ranks.evidence import Counts
from hpml.ranks.parent.ledger import RankLog

MAX_LOOKS = 1000  # at files, for one rank: what is found is kept
LOOK_AGAIN = 0.02  # seconds between two looks whether ranks stand still


@dataclass(frozen=True)
class Reply:
    """`value` for the open request of `rank`, sent `after` that many seconds.

    Where ranks have proxies, a reply with some `patience` waits up to so many seconds more, until
    all ranks stand still: a rank that then waits keeps waiting (see `.standstill`).
    """

    rank: int
    value: Any = None
    after: float = 0.0
    patience: float = 0.0


# (rank, request) -> replies that can be given now: to this request, to others' open ones, or none
# yet. A ValueError refuses the request: its message is raised where the rank asked.
Server = Callable[[int, Any], Iterable[Reply]]


class Serving:
    """The requests of one launch. `send(rank, data)` hands bytes to a rank's channel.

    With `look`, a request is logged with what files there are and what the kernel counts of its
    rank, before it is served: `look(rank)` has somebody look, who brings what there is to `looked`.

    Times are seconds since the launch began.
    """

    def __init__(
        self,
        serve: Server,
        logs: Sequence[RankLog],
        send: Callable[[int, bytes], None],
        look: Callable[[int], None] | None = None,
    ) -> None:
        self._serve, self._logs, self._send, self._look = serve, logs, send, look
        self._numbers: dict[int, int] = {}  # of the open request, by rank
        # A heap: when, order, reply, and when at the latest
        self._later: list[tuple[float, int, Reply, float]] = []
        self._order = itertools.count()

    def take(self, rank: int, event: Sequence[Any], now: float) -> None:
        """Take in an "ask" event. Raises ValueError where it is malformed or one too many."""
        if len(event) != 3 or type(event[1]) is not int or type(event[2]) is not bytes:
            raise ValueError("malformed request")
        _, number, data = event
        log = self._logs[rank]
        if log.end is not None:
            return
        if self._look is not None and len(log.asked) == MAX_LOOKS:
            raise ValueError(f"more than {MAX_LOOKS} requests")
        request = log.ask(data, now)
        self._numbers[rank] = number
        if self._look is None:
            self._reply(rank, request, now)
        else:
            self._look(rank)

    def looked(
        self,
        rank: int,
        files: Mapping[str, int] | None,
        now: float,
        counts: Counts | None = None,
    ) -> None:
        """Serve the open request of `rank`, when these files and the kernel's counts were found."""
        log = self._logs[rank]
        if log.end is None:
            log.found(files, counts)
            self._reply(rank, log.asked[-1].request, now)

    def _reply(self, rank: int, request: Any, now: float) -> None:
        try:
            replies = list(self._serve(rank, request))
        except ValueError as error:
            self._answer(rank, str(error)[:1000], now, refused=True)
            return
        for reply in replies:
            if reply.after > 0:
                self._keep(reply, now + reply.after, now + reply.after + reply.patience)
            else:
                self._answer(reply.rank, reply.value, now)

    @property
    def next_due(self) -> float | None:
        """When the next of the delayed replies is to be sent."""
        return self._later[0][0] if self._later else None

    def send_due(self, now: float, stand_still: Callable[[], bool]) -> None:
        """Send the delayed replies whose time has come; `stand_still`: whether all ranks do."""
        while self._later and self._later[0][0] <= now:
            _, _, reply, latest = heapq.heappop(self._later)
            if now < latest and not stand_still():
                self._keep(reply, min(now + LOOK_AGAIN, latest), latest)
            else:
                self._answer(reply.rank, reply.value, now)

    def _keep(self, reply: Reply, until: float, latest: float) -> None:
        heapq.heappush(self._later, (until, next(self._order), reply, latest))

    def _answer(self, rank: int, value: Any, now: float, refused: bool = False) -> None:
        log = self._logs[rank]
        if log.end is not None:
            return  # it ended meanwhile
        log.answered(now, refused)
        number = self._numbers.pop(rank)
        self._send(rank, frame_reply(number, refused, encoding.encode(value)))
