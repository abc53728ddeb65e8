"""Exercise fusion_buffer's gradients: what backward makes, one after the other, and its messages.

A rank asks the parent for each gradient, so that the parent knows how far backward had come when a
message left. All values are multiples of 12 and small enough for their dtype: sums over up to four
ranks and their means are exact, in whatever order they are computed.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import torch

from hpml.ranks import Reply, Server, ask

CASES = ("one dtype", "three dtypes", "no gradients", "an empty gradient alone")
# Seconds by which the next gradient is late after one with which a message is to leave: a message
# that leaves in between, from another thread too, has not waited for that gradient
PAUSE = 0.03
Layout = Literal["whole", "transposed", "columns"]
# Of the largest factor of 12: 12 · 5 · 4 ranks is below 2**8, which bfloat16 has exactly
LARGEST = {torch.float32: 2**15, torch.float64: 2**15, torch.bfloat16: 5}


@dataclass(frozen=True)
class Message:
    """The gradients of one message, by number, and the gradient with which it is to leave: the one
    that left no room, the first that did not fit, or its own if that is larger than a buffer; None:
    when all are there."""

    gradients: tuple[int, ...]
    nbytes: int
    leaves_with: int | None

    @property
    def waits_for_none(self) -> bool:
        """Whether it leaves with its own last gradient: it is full, or larger than a buffer."""
        return self.leaves_with == self.gradients[-1]


def inside(base: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The gradient that lies in the memory `base`: all of it, its transpose, or every other
    column."""
    if layout == "transposed":
        return base.t()
    return base[:, ::2] if layout == "columns" else base


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank: `buffer_bytes`, and by case the gradients, each a base and its layout. Their
    shapes are the same on all ranks."""
    draw = torch.Generator().manual_seed(seed)
    buffer_bytes = (16_000, 20_000, 24_000)[seed % 3]
    empty = (torch.float32, (0,), "whole")
    shapes = [_one_dtype(draw, buffer_bytes), _three_dtypes(draw, buffer_bytes), [], [empty]]

    def base(dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
        most = LARGEST[dtype]
        return (12 * torch.randint(-most, most + 1, tuple(shape), generator=draw)).to(dtype)

    return [
        {
            "buffer_bytes": buffer_bytes,
            "gradients": [
                [[base(dtype, shape), layout] for dtype, shape, layout in case] for case in shapes
            ],
        }
        for _ in range(world_size)
    ]


def _one_dtype(draw: torch.Generator, buffer_bytes: int) -> list[Any]:
    """Some six buffers of float32. One gradient takes exactly the room that is left, and one, which
    comes while another waits, that of a whole buffer."""
    made: list[Any] = []
    for number in range(24):
        size = int(torch.randint(200, 1800, (), generator=draw))
        if number == 9:
            size = _rest(made, buffer_bytes)
        elif number == 11:
            size = buffer_bytes // 4
        made.append((torch.float32, (size,), "whole"))
    return made


def _rest(made: Sequence[Any], buffer_bytes: int) -> int:
    """How many float32 take exactly the room that is left after these gradients."""
    most = buffer_bytes // 4
    rest = most
    for dtype, shape, layout in made:
        size = math.prod(shape) // (1 + (layout == "columns"))
        if dtype == torch.float32 and size <= most:
            rest = (rest if size <= rest else most) - size
    return rest or most


def _three_dtypes(draw: torch.Generator, buffer_bytes: int) -> list[Any]:
    """Gradients of three dtypes in turn: strided ones, empty ones, scalars, and some that are
    larger than a buffer, the first of which comes when there is room for more. One fills a buffer
    to the last byte, and several of other dtypes come next."""
    dtypes = (torch.float32, torch.float64, torch.bfloat16)
    layouts: tuple[Layout, ...] = ("whole", "transposed", "columns")
    made: list[Any] = []
    for number in range(30):
        # In twos, so that neighbours have one dtype now and then
        dtype = dtypes[number // 2 % 3]
        rows, columns = (int(n) for n in torch.randint(12, 40, (2,), generator=draw))
        made.append((dtype, (rows, 2 * columns), layouts[number % 3 if number % 5 else 0]))
    large = buffer_bytes // 4 + 12
    made.insert(4, (torch.float32, (4, large // 3), "transposed"))
    made.insert(19, (torch.float64, (large,), "whole"))
    made.insert(7, (torch.float32, (), "whole"))
    made.insert(12, (torch.bfloat16, (0, 3), "whole"))
    made[16] = (torch.float32, (_rest(made[:16], buffer_bytes),), "whole")
    made.append((torch.float64, (0,), "whole"))
    return made


def serve(
    ranks: Sequence[dict[str, Any]], pause: float = PAUSE
) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: to each "gradient" of a rank the next one, and None after a case's last;
    "averaged" is the moment at which a case is over. There is a pause after each gradient with
    which a message is to leave before the next one is taken."""
    pauses = [
        [
            {
                message.leaves_with + 1
                for of_dtype in messages(case, rank["buffer_bytes"]).values()
                for message in of_dtype
                if message.waits_for_none
            }
            for case in rank["gradients"]
        ]
        for rank in ranks
    ]
    at = [[0, 0] for _ in ranks]  # case and gradient, by rank

    def reply(rank: int, request: Any) -> list[Reply]:
        case, number = at[rank]
        if case == len(CASES) or request not in ("gradient", "averaged"):
            raise ValueError(f"there is no {str(request)[:40]!r} now")
        if request == "averaged":
            at[rank] = [case + 1, 0]
            return [Reply(rank)]
        at[rank][1] += 1
        rest = ranks[rank]["gradients"][case][number : number + 1]
        after = pause if number in pauses[rank][case] else 0.0
        return [Reply(rank, rest[0] if rest else None, after=after)]

    return [{"buffer_bytes": rank["buffer_bytes"]} for rank in ranks], reply


def drive(answer: ModuleType, inputs: dict[str, Any]) -> list[list[torch.Tensor]]:
    """By case: the memory in which each gradient lies that was taken, after `average`."""
    left = []
    for _ in CASES:
        bases: list[torch.Tensor] = []

        def backward(bases: list[torch.Tensor] = bases) -> Iterator[torch.Tensor]:
            while (made := ask("gradient")) is not None:
                base, layout = made
                bases.append(base)
                # A view of the base, always: if it gets other memory, the base stays as it was
                yield inside(base, layout)[...]

        answer.average(backward(), inputs["buffer_bytes"])
        ask("averaged")
        left.append([base.clone() for base in bases])
    return left


def expect(ranks: list[dict[str, Any]], world_size: int) -> list[list[list[torch.Tensor]]]:
    """By rank and case: each gradient's memory, with the mean where the gradient lies."""
    return [
        [
            [
                _with_mean(rank, [other["gradients"][case][number][0] for other in ranks])
                for number, rank in enumerate(own["gradients"][case])
            ]
            for case in range(len(CASES))
        ]
        for own in ranks
    ]


def _with_mean(own: Sequence[Any], bases: Sequence[torch.Tensor]) -> torch.Tensor:
    base, layout = own
    after = base.clone()
    inside(after, layout).copy_(inside(torch.stack(list(bases)).mean(0), layout))
    return after


def messages(
    gradients: Sequence[Sequence[Any]],
    buffer_bytes: int,
    *,
    full_leaves: bool = False,
    equal_is_large: bool = False,
    large_closes: bool = False,
    dtype_closes: bool = False,
) -> dict[str, list[Message]]:
    """By dtype ("float32"), the messages of one case in their order.

    With one of the options, the rule is another: a gradient that takes all the room that is left
    does not fit; a gradient as large as a buffer is too large for one; a gradient larger than a
    buffer has the open buffer leave; a gradient of another dtype has it leave.
    """
    found: dict[str, list[Message]] = {}
    open_: dict[str, list[int]] = {}
    sizes = [inside(base, layout).nbytes for base, layout in gradients]

    def leave(name: str, numbers: Sequence[int], moment: int | None) -> None:
        if nbytes := sum(sizes[number] for number in numbers):
            found.setdefault(name, []).append(Message(tuple(numbers), nbytes, moment))

    for number, (base, _) in enumerate(gradients):
        name, size = str(base.dtype).removeprefix("torch."), sizes[number]
        for other in [other for other in open_ if dtype_closes and other != name]:
            leave(other, open_.pop(other), number)
        if size > buffer_bytes - equal_is_large:
            if large_closes:
                leave(name, open_.pop(name, []), number)
            leave(name, [number], number)
            continue
        taken = sum(sizes[each] for each in open_.get(name, []))
        if taken + size > buffer_bytes - full_leaves:
            leave(name, open_.pop(name, []), number)
            taken = 0
        open_.setdefault(name, []).append(number)
        if taken + size == buffer_bytes:
            leave(name, open_.pop(name), number)
    for name, numbers in open_.items():
        leave(name, numbers, None)
    return found
