"""Who holds what of an all-reduce's tensor after each step, from the evidence of one launch.

The tensor is made so that each number says where it comes from. For p ranks it has p parts of p²
numbers. Number r·p + k of part k is 1 on rank r, all others are 0. Sums of such parts count: number
r·p + k of any part, on its way or at rest, is how many times rank r's part k is in it.

No rank knows which step the others are in. A message's step is its place in the longest chain of
messages, each sent by the rank that had received the one before (Lamport 1978, Time, clocks, and
the ordering of events in a distributed system); messages from one rank to one other are in steps
of their own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from hpml.answer.rules import Rules
from hpml.ranks import launch
from hpml.ranks.evidence import Evidence, RankEvidence
from hpml.ranks.parent.serving import Reply
from hpml.ranks.rank.asking import ask
from hpml.ranks.rank.recorder import current
from hpml.trace.messages import Message, messages

RANKS = 4
LIMIT = 10.0  # seconds

# (rank, part) -> how many times that rank's numbers of that part are in it
Content = Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class Sent:
    """One message of a step: `parts` are those of the tensor it is made of, by what is in them."""

    sender: int
    receiver: int
    parts: tuple[int, ...]  # empty where the numbers cannot be read
    arrived: bool


@dataclass(frozen=True)
class Holdings:
    """`states[s][rank][part]` is what a rank has after step s, 0 being the start.

    None in place of a part's content: numbers that cannot be read, of memory that was never
    written to, say. `steps[s]` are the messages between states s and s + 1. Where there is no step,
    there are two states, start and end. `stuck` has a sentence for each rank that did not return:
    what it raised, or which call it was in when the launch was ended.
    """

    world_size: int
    states: tuple[tuple[tuple[Content | None, ...], ...], ...]
    steps: tuple[tuple[Sent, ...], ...]
    stuck: tuple[str, ...] = ()


def labelled(rank: int, world_size: int) -> torch.Tensor:
    """The tensor of `rank`: p parts of p² numbers in one row, float64."""
    tensor = torch.zeros(world_size, world_size, world_size, dtype=torch.float64)
    for part in range(world_size):
        tensor[part, rank, part] = 1
    return tensor.flatten()


def watch(
    answer: str,
    function: str,
    *,
    in_place: bool,
    name: str = "answer",
    rules: Rules | None = None,
    world_size: int = RANKS,
) -> Evidence:
    """Launch the all-reduce `function` of an answer on a labelled tensor, and look at each message.

    `answer` is Python, `name` the exercise. With `in_place` the tensor itself becomes the sum;
    otherwise what the function returns is.
    """
    drive = partial(_watched, function=function, in_place=in_place)
    return _launch(drive, world_size, answer=answer, answer_name=name, rules=rules)


def watch_function(reduce: Callable[[torch.Tensor], None], world_size: int = RANKS) -> Evidence:
    """The same for a function of this process that makes the sum in place."""
    return _launch(partial(_observe, reduce, True), world_size)


def _launch(drive: Callable[..., Any], world_size: int, **options: Any) -> Evidence:
    return launch(drive, world_size, serve=_accept, timeout=LIMIT, **options)


def _accept(rank: int, request: Any) -> list[Reply]:
    return [Reply(rank)]


def _watched(answer: Any, function: str, in_place: bool) -> torch.Tensor:
    return _observe(getattr(answer, function), in_place)


def _observe(reduce: Callable[[torch.Tensor], Any], in_place: bool) -> torch.Tensor:
    """On a rank: report at each call the tensor and what is sent. The parent logs it at once, so
    that it is there even if this rank never returns."""
    import torch.distributed as dist

    recorder = current()
    tensor = labelled(dist.get_rank(), dist.get_world_size())
    enter = recorder.enter

    def seen(operation: str, group: Any, tensors: Any = (), *rest: Any, **named: Any) -> int:
        index = enter(operation, group, tensors, *rest, **named)
        sent = [one.detach().flatten().double() for one in tensors if operation == "send"]
        outgoing = torch.cat(sent) if sent else torch.empty(0, dtype=torch.float64)
        ask({"call": index, "has": tensor, "sends": outgoing})
        return index

    recorder.enter = seen
    try:
        result = reduce(tensor)
    finally:
        recorder.enter = enter
    if in_place or not isinstance(result, torch.Tensor):
        return tensor
    return result.detach().flatten().double()


@dataclass(frozen=True)
class _Look:
    """What a rank has when it begins a call, and sends with it; or what it has at its end."""

    call: float  # index in the ledger; infinite at the end
    issued: float
    has: tuple[Content | None, ...]
    sends: tuple[Content | None, ...] = ()


def holdings(evidence: Evidence) -> Holdings:
    """Read the evidence of `watch` or `watch_function`.

    Raises ValueError for the evidence of another launch, which does not have what tensors held, and
    as `hpml.trace.messages.messages` does.
    """
    size = evidence.world_size
    sent = messages(evidence)
    step_of = _steps(sent)
    last = max(step_of.values(), default=-1)
    looks = [_looks(rank, size) for rank in evidence.ranks]
    start = tuple(_read(labelled(rank, size), size) for rank in range(size))
    states = [start]
    for step in range(last):
        states.append(
            tuple(_after(step, rank, looks[rank], sent, step_of, states) for rank in range(size))
        )
    states.append(
        tuple(looks[rank][-1].has if looks[rank] else start[rank] for rank in range(size))
    )
    sends = {(rank, look.call): look.sends for rank in range(size) for look in looks[rank]}
    steps = tuple(
        tuple(
            Sent(
                m.sender,
                m.receiver,
                _parts(sends.get((m.sender, m.send), ())),
                m.received is not None,
            )
            for m in sorted(sent, key=lambda m: (m.sender, m.send))
            if step_of[m] == step
        )
        for step in range(last + 1)
    )
    return Holdings(size, tuple(states), steps, _stuck(evidence))


def _steps(sent: list[Message]) -> dict[Message, int]:
    """The step of each message; they come in the order of sending."""
    found: dict[Message, int] = {}
    for message in sent:
        before = [
            step
            for other, step in found.items()
            if (other.sender, other.receiver) == (message.sender, message.receiver)
            or (
                other.receiver == message.sender
                and other.received is not None
                and other.received <= message.sent
            )
        ]
        found[message] = max(before, default=-1) + 1
    return found


def _looks(rank: RankEvidence, size: int) -> list[_Look]:
    calls = {call.index: call for call in rank.calls}
    looks = []
    for asked in rank.asked:
        request = asked.request
        if not isinstance(request, dict) or set(request) != {"call", "has", "sends"}:
            raise ValueError("these ranks were not watched: launch them with hpml.trace.holdings")
        call = calls[request["call"]]
        has, sends = _read(request["has"], size), _read(request["sends"], size)
        looks.append(_Look(call.index, call.issued, has, sends))
    if rank.end == "returned":
        if not isinstance(rank.value, torch.Tensor):
            raise ValueError("these ranks were not watched: launch them with hpml.trace.holdings")
        looks.append(_Look(float("inf"), float("inf"), _whole(rank.value, size)))
    return looks


def _read(numbers: torch.Tensor, size: int) -> tuple[Content | None, ...]:
    """What is in each part's length of `numbers`; nothing is known where they are of another length
    than so many parts."""
    if numbers.numel() % size**2:
        return ()
    return tuple(_content(part) for part in numbers.view(-1, size, size))


def _whole(numbers: torch.Tensor, size: int) -> tuple[Content | None, ...]:
    return _read(numbers, size) if numbers.numel() == size**3 else (None,) * size


def _content(counts: torch.Tensor) -> Content | None:
    size = len(counts)
    scaled = counts * size  # means count in p-th parts
    if not torch.isfinite(counts).all() or (scaled - scaled.round()).abs().max() > 1e-6:
        return None
    if counts.min() < 0 or counts.max() > 1e6:
        return None
    places = counts.nonzero().tolist()
    return {(rank, part): float(counts[rank, part]) for rank, part in places}


def _parts(contents: tuple[Content | None, ...]) -> tuple[int, ...]:
    return tuple(sorted({part for content in contents for _, part in content or ()}))


def _after(
    step: int,
    rank: int,
    looks: list[_Look],
    sent: list[Message],
    step_of: dict[Message, int],
    states: list[tuple[tuple[Content | None, ...], ...]],
) -> tuple[Content | None, ...]:
    """What `rank` is seen to have after `step`: its tensor when it begins its next step. Where that
    is as it was at the start, the rank may add up elsewhere: what it then sends, or had before."""
    arrived = [m for m in sent if m.receiver == rank and m.received is not None]
    done = max((m.received for m in arrived if step_of[m] <= step), default=0.0)
    later = {m.send for m in sent if m.sender == rank and step_of[m] > step}
    later |= {m.recv for m in sent if m.receiver == rank and step_of[m] > step}
    start, has = states[0][rank], list(states[-1][rank])
    following = {m.send for m in sent if m.sender == rank and step_of[m] == step + 1}
    for one in looks:
        if one.call in following:
            for content in one.sends:
                for part in _parts((content,)):
                    has[part] = content
    look = next((k for k in looks if k.call in later and k.issued >= done), None)
    look = look or (looks[-1] if looks else None)
    seen = look.has if look else start
    return tuple(
        elsewhere if now == first else now
        for now, first, elsewhere in zip(seen, start, has, strict=True)
    )


def _stuck(evidence: Evidence) -> tuple[str, ...]:
    if evidence.diagnosis is None:
        return ()
    found = []
    for rank in evidence.ranks:
        waiting = [call for call in rank.calls if call.finished is None]
        if rank.raised is not None:
            found.append(f"rank {rank.rank} raised {rank.raised.kind}")
        elif rank.end == "killed":
            found.append(f"rank {rank.rank} was killed by {rank.signal}")
        elif rank.end == "exited":
            found.append(f"rank {rank.rank} left with exit code {rank.exit_code}")
        elif rank.end == "ended" and waiting:
            call = next((c for c in waiting if c.waited is not None), waiting[0])
            line = f" (line {call.line})" if call.line else ""
            found.append(f"rank {rank.rank} waits in {call.operation} {call.detail}{line}")
    return tuple(found)
