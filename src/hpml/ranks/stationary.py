"""Distinguish an endless loop from work that is merely slow.

A rank in a loop burns processor time, as one at work does, so time alone proves nothing. But a
`while` loop that calls nothing, found several times with the same value in every variable, can
never do anything else: what it computes next depends on nothing that could change.
"""

import ast
import itertools
import types
from collections.abc import Callable
from typing import Any

import torch

_DEPTH, _ITEMS = 3, 50
_BY_IDENTITY = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)
_unknown = itertools.count()


def sampler(send: Callable[[list[Any]], None], filename: str) -> Callable[[int, Any], None]:
    """A signal handler that sends ["sample", line, fingerprint] of the frames of `filename`.

    Python runs it between two bytecodes of the main thread; a rank inside one long call into C++
    does not answer. Where the innermost frame is not of `filename` (a sleep, a loader), the line is
    None: no claim is made.
    """

    def handler(_signal: int, frame: types.FrameType | None) -> None:
        if frame is None or frame.f_code.co_filename != filename:
            send(["sample", None, 0])
            return
        line, prints = frame.f_lineno, []
        while frame is not None:
            if frame.f_code.co_filename == filename:
                names = {k: v for k, v in frame.f_locals.items() if not k.startswith("__")}
                prints.append(_fingerprint(names, 0))
            frame = frame.f_back
        send(["sample", line, hash(tuple(prints))])

    return handler


def _fingerprint(value: Any, depth: int) -> Any:
    """Something equal exactly when `value` is unchanged; never equal where that cannot be known.

    Nothing of the answer's runs here, no `__repr__` and no `__iter__` of its classes: that could
    take long or raise, amid work that has nothing to do with it.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes):
        return value
    if kind in (torch.Tensor, torch.nn.Parameter):
        # One made in inference mode counts no versions, and raises where it is asked for its own.
        return next(_unknown) if value.is_inference() else (id(value), value._version)
    if issubclass(kind, _BY_IDENTITY):
        return id(value)
    if depth < _DEPTH:
        if kind in (list, tuple) and len(value) <= _ITEMS:
            return tuple(_fingerprint(item, depth + 1) for item in value)
        if kind is dict and len(value) <= _ITEMS:
            return tuple(
                (_fingerprint(key, depth + 1), _fingerprint(item, depth + 1))
                for key, item in value.items()
            )
    return next(_unknown)


def never_ends(source: str, line: int) -> bool:
    """Whether the innermost loop around `line` of `source` is a `while` that calls nothing."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # deep nesting, too
        return False
    loops = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    if not loops:
        return False
    innermost = max(loops, key=lambda node: node.lineno)
    outside_world = ast.Call | ast.Await | ast.Yield | ast.YieldFrom | ast.Import | ast.ImportFrom
    return isinstance(innermost, ast.While) and not any(
        isinstance(node, outside_world) for node in ast.walk(innermost)
    )
