"""An answer as a module: in a notebook's kernel, and on each rank."""

import linecache
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def as_module(source: str, filename: str, builtins: Mapping[str, Any] | None = None) -> ModuleType:
    """Execute `source`, Python text, as the module `answer`; tracebacks show its lines.

    The name is not `__main__`, so that an answer which is also a script does not start its main.
    `builtins` are those of all its code (see `hpml.answer.enforce`); None: Python's own.
    Raises whatever the answer raises.
    """
    module = ModuleType("answer")
    if builtins is not None:
        module.__dict__["__builtins__"] = builtins
    module.__file__ = filename
    sys.modules["answer"] = module  # dataclasses and pickling look a class's module up there
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)
    return module
