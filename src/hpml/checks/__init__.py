"""The exercises' checks, one file per exercise: `find("ddp")`, `judge("ddp", source)`.

A room that ranks never enter: what a drive needs is sent to them by value.
"""

from hpml.checks.registry import find, ids
from hpml.checks.run_check import judge

__all__ = ["find", "ids", "judge"]
