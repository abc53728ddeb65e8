"""From which size on a ring's all-reduce is quicker than recursive doubling, by the α–β model."""

from collections.abc import Sequence

from hpml.predict.collectives import Cost, all_reduce_bytes


def crossover(ranks: int, cost: Cost) -> float:
    """Bytes at which both take as long; `ranks` is a power of two, 4 or more.

    log₂ p (α + n β) = 2 (p-1) α + 2 (p-1)/p n β, solved for n. For two ranks both send the same
    bytes, and a ring needs one message more: it never wins.

    Raises ValueError for other numbers of ranks.
    """
    if ranks < 4 or ranks & (ranks - 1):
        raise ValueError(f"{ranks} ranks: give a power of two, 4 at least")
    levels = ranks.bit_length() - 1
    messages = 2 * (ranks - 1) - levels
    return messages / (levels - all_reduce_bytes(ranks, 1)) * cost.alpha / cost.beta


def table(ranks: Sequence[int]) -> str:
    """Messages and tensors that a rank sends by either, and the crossover in units of α/β."""
    lines = ["        recursive doubling         ring        the ring wins from"]
    for p in ranks:
        levels, ring = p.bit_length() - 1, all_reduce_bytes(p, 1)
        lines.append(
            f"{p:5} ranks {levels:3} α + {levels:2} n β {2 * (p - 1):7} α + {ring:.2f} n β"
            f" {crossover(p, Cost(1, 1)):9.1f} α/β"
        )
    return "\n".join(lines)


def larger_with_ranks(few: int, many: int, cost: Cost) -> tuple[bool, str, str]:
    """For `conclude`: on a network of this `cost`, the crossover for `few` and for `many` ranks."""
    first, last = crossover(few, cost), crossover(many, cost)
    alpha, rate = 1e6 * cost.alpha, 8e-9 / cost.beta
    sizes = f"{few} ranks {_size(first)}, {many} ranks {_size(last)}"
    return (
        last > first,
        f"With α = {alpha:.0f} µs and {rate:.2f} Gbit/s, measured above, the two are equal at: "
        f"{sizes}. A gradient that is large for {few} ranks may be small for {many}.",
        f"the crossover did not grow with the ranks: {sizes}.",
    )


def _size(nbytes: float) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.0f} kB"
