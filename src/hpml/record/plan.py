"""The measurements: what each finds, how long it may take, and what it needs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """`call` is "module:function" in this package: the function takes a `kept.Place` and returns
    what is kept, as JSON has it.

    `needs` are modules besides torch and numpy without which it is left out, `gpus` how many of
    them it needs where there are any; `solutions`: it plays those, and a release has none.
    """

    name: str
    finds: str
    call: str
    limit: float  # seconds
    needs: tuple[str, ...] = ()
    gpus: int = 1
    solutions: bool = False


# The most wanted first: the time that is given may end before the list does.
PLAN = (
    Measurement(
        "training",
        "seconds to 90 % and to 94 %, images/s; bfloat16 and float32",
        "training:measure",
        limit=150,
    ),
    Measurement(
        "steps",
        "ten steps of a badly written loop and of a good one, profiled",
        "steps:measure",
        limit=60,
    ),
    Measurement(
        "answers",
        "reference answers with the device's tensors, on one rank and on two",
        "answers:measure",
        limit=90,
        solutions=True,
    ),
    Measurement(
        "roofline",
        "products and convolutions by number type, memory, copies, launches, fused and not",
        "roofline:measure",
        limit=60,
    ),
    Measurement(
        "compiled",
        "the same training, with the network compiled",
        "training:compiled",
        limit=120,
    ),
    Measurement(
        "job_scripts",
        "each *_gpu.slurm's own command line, without SLURM",
        "job_scripts:measure",
        limit=150,
    ),
    Measurement(
        "all_reduce",
        "all-reduce from 4 B to 256 MB, and how much of it DDP hides",
        "all_reduce:measure",
        limit=60,
        gpus=2,
    ),
)


def chosen(names: list[str]) -> tuple[Measurement, ...]:
    """Those with these names, in the list's order; all where there are none. Raises KeyError."""
    known = {one.name for one in PLAN}
    for name in names:
        if name not in known:
            raise KeyError(name)
    return tuple(one for one in PLAN if not names or one.name in names)
