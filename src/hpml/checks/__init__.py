"""The exercises' checks, one file per exercise: `find("ddp")`, `judge("ddp", source)`.

Ranks never import this package: the code that a drive needs is sent to them by value.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpml.checks.registry import find, ids
    from hpml.checks.run_check import judge

__all__ = ["find", "ids", "judge"]

_FROM = {"find": "registry", "ids": "registry", "judge": "run_check"}


def __getattr__(name: str) -> Any:
    # Lazily: `./hpml hint` and a verdict's text need neither torch nor the ranks.
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_FROM[name]}"), name)
