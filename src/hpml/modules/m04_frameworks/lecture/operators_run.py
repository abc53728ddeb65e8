"""Which operators a function runs, from which of its lines, and how many bytes they move.

Counted at PyTorch's dispatcher, below autograd, so that operators of backward and of the optimizer
are counted too: `torch.utils._python_dispatch.TorchDispatchMode`.
"""

import linecache
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PROFILERS = "_record_function"  # names for a profiler, which the optimizer gives: no computation


@dataclass(frozen=True)
class Operator:
    """One operator that ran. `line` is the source of the function's line that called it, or "".

    `read` and `written` are the bytes of the tensors that it takes and gives, a tensor that it
    takes twice counted once; 0 for an operator that only makes another view of a tensor.
    """

    name: str
    line: str
    read: int
    written: int


def recorded(function: Callable[..., Any], *arguments: Any) -> list[Operator]:
    """The operators of `function(*arguments)`, in the order in which they ran."""
    log = _Log(getattr(function, "__code__", None))
    with log:
        function(*arguments)
    return log.ran


def bytes_moved(ran: Sequence[Operator]) -> int:
    """Bytes read and written by all of `ran`, if nothing stays in a cache between two operators."""
    return sum(one.read + one.written for one in ran)


def by_line(ran: Sequence[Operator]) -> str:
    """A row for each line of the function that ran operators, with their names."""
    rows: list[tuple[str, list[str]]] = []
    for one in ran:
        if not rows or rows[-1][0] != one.line:
            rows.append((one.line, []))
        rows[-1][1].append(one.name)
    width = max((len(line) for line, _ in rows), default=0)
    return "\n".join(f"{line:{width}}  →  {', '.join(names)}" for line, names in rows)


class _Log(TorchDispatchMode):
    def __init__(self, code: CodeType | None):
        super().__init__()
        self.code = code
        self.ran: list[Operator] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        inputs, outputs = list(_tensors((args, kwargs))), list(_tensors(result))
        kept = {tensor.untyped_storage().data_ptr() for tensor in inputs}
        schema = function._schema
        view = not schema.is_mutable and any(
            tensor.untyped_storage().data_ptr() in kept for tensor in outputs
        )
        read, written = (0, 0) if view else (_bytes(inputs), _bytes(outputs))
        name = function.overloadpacket.__name__
        if not name.startswith(PROFILERS):
            self.ran.append(Operator(name, self._line(), read, written))
        return result

    def _line(self) -> str:
        frame = sys._getframe(1)
        while frame is not None:
            if self.code is not None and frame.f_code is self.code:
                return linecache.getline(self.code.co_filename, frame.f_lineno).strip()
            frame = frame.f_back
        return ""


def _tensors(values: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor))


def _bytes(tensors: Sequence[Tensor]) -> int:
    different = {(tensor.data_ptr(), tensor.shape): tensor for tensor in tensors}
    return sum(tensor.numel() * tensor.element_size() for tensor in different.values())
