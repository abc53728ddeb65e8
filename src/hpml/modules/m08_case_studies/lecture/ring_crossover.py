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


def table(ranks: Sequence[int], cost: Cost | None = None) -> str:
    """What a rank sends by either, and the crossover: in units of α/β, and for this `cost`."""
    lines = [f"{'recursive doubling':>27} {'ring':>18} {'the ring wins from':>21}"]
    for p in ranks:
        levels, ring = p.bit_length() - 1, all_reduce_bytes(p, 1)
        here = f" = {_size(crossover(p, cost)):>7} here" if cost else ""
        lines.append(
            f"{p:5} ranks {levels:3} α + {levels:2} n β {2 * (p - 1):7} α + {ring:.2f} n β"
            f" {crossover(p, Cost(1, 1)):12.1f} α/β{here}"
        )
    return "\n".join(lines)


def _size(nbytes: float) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.0f} kB"
