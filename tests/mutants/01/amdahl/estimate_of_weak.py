# wrong: solves the wrong law for the serial fraction
# hint: weak_estimate
# claim: a measured speed-up tells the serial fraction
def strong_speedup(serial: float, ranks: int) -> float:
    return 1 / (serial + (1 - serial) / ranks)


def weak_speedup(serial: float, ranks: int) -> float:
    return serial + (1 - serial) * ranks


def efficiency(speedup: float, ranks: int) -> float:
    return speedup / ranks


def serial_fraction(speedup: float, ranks: int) -> float:
    return (ranks - speedup) / (ranks - 1)
