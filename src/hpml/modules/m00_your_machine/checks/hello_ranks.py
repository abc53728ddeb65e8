"""hello_ranks: the first collective. Every rank contributes a number and gets the sum.

`hello(number: int) -> int`, called once on each rank with that rank's own number.
"""

import random
from types import ModuleType

from hpml.checks.contract import Check, Claim, Problem, Run
from hpml.checks.kits.ready_made import ANYTHING


def inputs(seed: int, world_size: int) -> list[int]:
    """One number per rank, all different; not 0 or 1, which do not change a sum or product."""
    return random.Random(seed).sample(range(2, 1000), world_size)


def drive(answer: ModuleType, number: int) -> int:
    return answer.hello(number)


def expect(numbers: list[int], world_size: int) -> int:
    return sum(numbers)


def _wrong(run: Run, rank: int) -> Problem | None:
    value = run.values[rank]
    if isinstance(value, bool) or not isinstance(value, int):
        kind, hint = (
            (f"a {type(value).__name__}", "type") if value is not None else ("None", "none")
        )
        return Problem(f"rank {rank} returned {kind}", hint, "an int")
    if value == run.expected:
        return None
    terms = " + ".join(str(number) for number in run.inputs)
    expected = f"{terms} = {run.expected}" if run.world_size > 1 else str(run.expected)
    seen = f"rank {rank} returned {value}"
    # Compare all ranks: a maximum is equal to one rank's own number.
    if all(type(v) is int and v == n for v, n in zip(run.values, run.inputs, strict=True)):
        return Problem(f"{seen}, its own number", "alone", expected)
    if run.values[0] == run.expected:
        return Problem(f"{seen}, and rank 0 the sum", "everyone", expected)
    return Problem(seen, "sum", expected)


def root_has_the_sum(run: Run) -> Problem | None:
    return _wrong(run, 0)


def every_rank_has_the_sum(run: Run) -> Problem | None:
    problems = (_wrong(run, rank) for rank in range(run.world_size))
    return next((problem for problem in problems if problem), None)


CHECK = Check(
    id="hello_ranks",
    title="Every rank says a number, every rank hears the sum",
    names=("hello",),
    to_write="the sum of all ranks' numbers, on every rank",
    allowed=ANYTHING,
    inputs=inputs,
    drive=drive,
    expect=expect,
    claims=(
        Claim("rank 0 returns the sum over all ranks", 1, root_has_the_sum),
        Claim("every rank returns the sum over all ranks", 1, every_rank_has_the_sum),
    ),
    hints={
        "start": "Your number is an int, and dist.all_reduce works on a tensor. What do you make "
        "of the number before the call, and where is the sum after it?",
        "alone": "The number came back as it went in. Each rank sees only its own; they meet in "
        "dist.all_reduce(tensor), which writes the sum into the tensor it is given and returns "
        "nothing.",
        "everyone": "One rank knows the sum and the others do not. dist.reduce leaves the result "
        "with one rank; dist.all_reduce leaves it with all.",
        "sum": "Ranks talked, but the result is not the sum. Compare it with the numbers of the "
        "ranks: is it one of them, is one left out, or is a sum divided? all_reduce adds the "
        "tensors of all ranks, however many there are, unless op names another operation.",
        "none": "A call of dist.all_reduce returns nothing: it writes the sum into the tensor it "
        "is given. Keep that tensor in a variable, and return its number, tensor.item().",
        "type": "Return a plain int: tensor.item() takes the number out of a tensor of one "
        "element.",
        "raised": "Start from the exception: it names a line of your answer. dist.all_reduce takes "
        "a tensor, and returns nothing: torch.tensor(number) makes one of a number.",
        "hang": "A collective is complete once every rank has called it. Take the call out of the "
        "`if rank == ...`: all ranks call all_reduce, also those that only listen.",
        "mismatch": "All ranks must call the same collectives in the same order, with tensors of "
        "one shape and dtype. An `if` on the rank around one of them is the usual cause.",
    },
)
