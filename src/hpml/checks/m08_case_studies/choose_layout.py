"""choose_layout: what the learner writes, in a line.

`choose_layout()`, called on each rank.
"""

from types import ModuleType
from typing import Any

from hpml.checks.contract import Check


def inputs(seed: int, world_size: int) -> list[Any]:
    """What each rank is given, fresh for every seed."""
    return [None] * world_size


def drive(answer: ModuleType, given: Any) -> Any:
    return answer.choose_layout()


def expect(given: list[Any], world_size: int) -> Any:
    """What should come out, by single-process mathematics."""
    return None


CHECK = Check(
    id="choose_layout",
    title="choose_layout",
    names=("choose_layout",),
    to_write="",  # "the sum of all ranks' numbers": with the next, a line of the exercise's text
    allowed="",  # "any call of `torch.distributed`"
    not_allowed=(),  # what is ready-made of it: see hpml/checks/kits/ready_made.py
    inputs=inputs,
    drive=drive,
    expect=expect,
    claims=(),  # Claim("what holds, as a sentence", 2, judge): see hpml/checks/contract.py
    hints={"start": ""},
)
