"""The exercises' checks, one file per exercise: `find("ddp")`, `judge("ddp", source)`.

Ranks never import this package: the code that a drive needs is sent to them by value.
"""

from hpml.checks.registry import find, ids
from hpml.checks.run_check import judge

__all__ = ["find", "ids", "judge"]
