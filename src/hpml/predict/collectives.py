"""What collectives cost at the least, whoever implements them: bytes from each rank, seconds."""


def all_reduce_bytes(world_size: int, nbytes: int) -> float:
    """Bytes that each rank must send, and receive, so that all have the sum of `nbytes` of each.

    2 (p-1)/p · n: as much to have each part of the sum made somewhere as to have it go everywhere.
    No algorithm in which all ranks send alike needs less, and a ring needs no more (Patarasuk and
    Yuan 2009, Bandwidth optimal all-reduce algorithms for clusters of workstations, section 3).
    """
    return 2 * (world_size - 1) / world_size * nbytes


def broadcast_bytes(world_size: int, nbytes: int) -> float:
    """Bytes that the busiest rank sends when rank 0's `nbytes` go to all along a binomial tree.

    ⌈log₂ p⌉ · n, by the root, which has one child per level (Thakur, Rabenseifner and Gropp 2005,
    Optimization of collective communication operations in MPICH, section 4.3).
    """
    return (world_size - 1).bit_length() * nbytes


def seconds(nbytes: float, rate: float) -> float:
    """Seconds that `nbytes` take on a link of `rate` bit/s, without latency and headers."""
    return 8 * nbytes / rate
