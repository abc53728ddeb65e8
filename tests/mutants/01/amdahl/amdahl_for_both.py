# wrong: takes Amdahl's law for a problem that grows
# hint: stays
# claim: the speed-up of a problem that grows with the ranks
def strong_speedup(serial: float, ranks: int) -> float:
    return 1 / (serial + (1 - serial) / ranks)


def weak_speedup(serial: float, ranks: int) -> float:
    return 1 / (serial + (1 - serial) / ranks)


def efficiency(speedup: float, ranks: int) -> float:
    return speedup / ranks


def serial_fraction(speedup: float, ranks: int) -> float:
    return (1 / speedup - 1 / ranks) / (1 - 1 / ranks)
