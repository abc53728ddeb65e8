"""Batches that a rank has to ask for, and a caller that computes: who did what, and when.

In the rank, `batches` asks for each batch when it begins to read it, and the drives ask when they
want the next batch and while they compute on it. The parent gives the replies. It lets a read and a
computation wait for each other, so that what overlaps is seen as an order of requests and not as
seconds: nobody has to be fast.
"""

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from hpml.ranks import Reply, Server, ask, mark
from hpml.ranks.evidence import RankEvidence

NAP = 0.003  # seconds between two questions whether a read or a computation may end
PATIENCE = 2.5  # seconds for which one may wait for the other, once in a launch
LONG_STEP = 10  # naps for which a slow caller goes on when the reader could be full
WITH_NONE = (None, 1, None, 2)  # what an iterator may give, too
KINDS = {"OSError": OSError, "ValueError": ValueError, "RuntimeError": RuntimeError}


# In a rank


def batches(raised: list[Exception] | None = None) -> Iterator[torch.Tensor]:
    """The rank's batches, as its server has them: each is asked for when it is read. An error that
    ends them is put into `raised` too."""
    while True:
        found = ask("read")
        while found is None:
            time.sleep(NAP)
            found = ask("reading")
        if "raise" in found:
            kind, message = found["raise"]
            error = KINDS[kind](message)
            if raised is not None:
                raised.append(error)
            raise error
        if "batch" not in found:
            return
        yield found["batch"]


def compute() -> None:
    """A computation that lasts until the server has it end."""
    done = ask("compute")
    while not done:
        time.sleep(NAP)
        done = ask("computing")


def take_all(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """What a loop over the answer's iterator gets, and the error that ends it: its type, its
    message, and whether it is the one that was raised. And what it gets where there is nothing,
    and of WITH_NONE: None where that was not played."""
    ask("count")
    got, error, empty, with_none = [], None, [], None
    before = tasks()
    raised: list[Exception] = []
    source: Any = batches(raised)
    if inputs.get("without_next"):  # as a list is: an iterable, and no iterator
        source = type("Batches", (), {"__iter__": lambda self: batches()})()
    ahead = iter(answer.prefetch(source, depth=inputs["depth"]))
    while True:
        ask("next")
        try:
            batch = next(ahead)
        except StopIteration:
            break
        except Exception as seen:
            error = [type(seen).__name__, str(seen), any(seen is one for one in raised)]
            break
        got.append(batch)
        compute()
    wait_for_tasks(before, PATIENCE)
    ask("count")
    del ahead  # not before: the loop is over, whoever still holds the iterator
    if inputs.get("without_next"):
        mark("an empty list of batches")
        try:
            empty = [type(one).__name__ for one in answer.prefetch([], depth=inputs["depth"])]
        except Exception as seen:
            empty = [f"{type(seen).__name__}: {seen}"]
        mark("a list of batches with None among them")
        try:
            with_none = list(answer.prefetch(list(WITH_NONE), depth=inputs["depth"]))
        except Exception as seen:
            with_none = [f"{type(seen).__name__}: {seen}"]
    return {"got": got, "error": error, "empty": empty, "with_none": with_none}


def leave(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Leave the loop after some batches, by a break or by close(), while the reader could go on."""
    ask("count")
    before = tasks()
    taken = 0
    ahead = answer.prefetch(batches(), inputs["depth"])
    closes = hasattr(ahead, "close")
    for _ in ahead:
        ask("next")
        taken += 1
        if taken == inputs["takes"]:
            compute()
            break
    if inputs["closes"] and closes:
        ahead.close()
    del ahead
    wait_for_tasks(before, PATIENCE)
    ask("count")
    return {"taken": taken, "closes": closes}


def tasks() -> int:
    """This process's threads and children, by its own word: to know when to go on."""
    found = 0
    with contextlib.suppress(OSError):  # this is not Linux
        for task in os.listdir("/proc/self/task"):
            found += 1
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found += len(Path(f"/proc/self/task/{task}/children").read_text().split())
    return found


def wait_for_tasks(before: int, patience: float) -> None:
    """Until there are no more than `before`. A thread that was joined takes a moment to be gone."""
    gc.collect()
    deadline = time.monotonic() + patience
    while tasks() > before and time.monotonic() < deadline:
        time.sleep(NAP)


# In the parent


@dataclass
class Source:
    """One rank's batches, and what it has asked so far.

    With `meets`, a read ends once it has overlapped a computation, and a computation once it has
    overlapped a read; but the first read ends at once, and so do computations when there is nothing
    left to read. Without, reads end at once, and a computation once the reader is `depth`
    batches ahead and has had time for more. Patience ends either. With `lasts`, a read and a
    computation take so many seconds, for a picture.
    """

    batches: Sequence[torch.Tensor]
    depth: int
    meets: bool = False
    raises: Sequence[str] = ()  # kind and message, in place of the end
    lasts: Sequence[float] = ()
    begun: int = 0  # reads, the one that finds the end included
    reading: bool = False
    wanted: int = 0  # batches that were asked for by next()
    computing: bool = False
    read_met: bool = False  # the read that was begun last has overlapped a computation
    compute_met: bool = False  # and the other way round
    naps: int = 0
    since: float = field(default_factory=time.monotonic)
    began: dict[str, float] = field(default_factory=dict)  # when the last read or computation did
    patient: bool = True

    def reply(self, request: Any) -> Any:
        if request in ("read", "compute"):
            self.began[request] = time.monotonic()
        if request == "read":
            self.begun, self.reading, self.read_met = self.begun + 1, True, self.computing
            self.compute_met = self.compute_met or self.computing
            self.since = time.monotonic()
        elif request == "compute":
            self.computing, self.compute_met, self.naps = True, self.reading, 0
            self.read_met = self.read_met or self.reading
            self.since = time.monotonic()
        elif request == "next":
            self.wanted += 1
        elif request not in ("reading", "computing", "count"):
            raise ValueError("that is not served")
        if request in ("read", "reading") and self.reading:
            return self.read()
        if request in ("compute", "computing") and self.computing:
            self.computing = not self.computed()
            return not self.computing
        return None

    def read(self) -> dict[str, Any] | None:
        if self.lasts and time.monotonic() < self.began["read"] + self.lasts[0]:
            return None
        held = self.meets and 1 < self.begun <= len(self.batches)
        if held and not self.read_met and self.waits():
            return None
        self.reading = False
        if self.begun <= len(self.batches):
            return {"batch": self.batches[self.begun - 1]}
        return {"raise": list(self.raises)} if self.raises else {"end": True}

    def computed(self) -> bool:
        over = self.begun > len(self.batches)
        if self.lasts:
            return time.monotonic() >= self.began["compute"] + self.lasts[1]
        if self.meets:
            return self.compute_met or over or not self.waits()
        if not over and self.begun - self.wanted < self.depth:
            return not self.waits()
        self.naps += 1
        return self.naps > LONG_STEP or self.wanted > 1

    def waits(self) -> bool:
        """Whether there is patience left; once it has run out, there is none."""
        self.patient = self.patient and time.monotonic() - self.since < PATIENCE
        return self.patient


def serving(**options: Any) -> Callable[[Sequence[dict[str, Any]]], tuple[Sequence[Any], Server]]:
    """A stage's `serve`: its ranks are sent all of their inputs but the batches and the error."""

    def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[Any], Server]:
        sources = [
            Source(rank["batches"], rank["depth"], raises=rank.get("raises", ()), **options)
            for rank in ranks
        ]
        sent = [
            {name: value for name, value in rank.items() if name not in ("batches", "raises")}
            for rank in ranks
        ]

        def reply(rank: int, request: Any) -> list[Reply]:
            return [Reply(rank, sources[rank].reply(request))]

        return sent, reply

    return serve


# What the requests show. They come one at a time, so their order is the order of what happened.


def requests(rank: RankEvidence) -> list[str]:
    return [asked.request for asked in rank.asked if not asked.refused]


def spans(rank: RankEvidence, begins: str, goes_on: str) -> list[tuple[int, int]]:
    """The first and the last request of each read ("read", "reading") or computation."""
    found: list[tuple[int, int]] = []
    for place, request in enumerate(requests(rank)):
        if request == begins:
            found.append((place, place))
        elif request == goes_on and found:
            found[-1] = found[-1][0], place
    return found


def reads(rank: RankEvidence) -> list[tuple[int, int]]:
    return spans(rank, "read", "reading")


def computations(rank: RankEvidence) -> list[tuple[int, int]]:
    return spans(rank, "compute", "computing")


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def ahead(rank: RankEvidence, batches: int) -> list[int]:
    """For each batch, when its read began: how many were read or being read, and not asked for."""
    found, wanted, begun = [], 0, 0
    for request in requests(rank):
        wanted += request == "next"
        if request == "read" and begun < batches:
            begun += 1
            found.append(begun - wanted)
    return found
