# wrong: takes a superlinear speed-up for an error
# hint: clamped
# claim: a measured speed-up tells the serial fraction
def strong_speedup(serial: float, ranks: int) -> float:
    return 1 / (serial + (1 - serial) / ranks)


def weak_speedup(serial: float, ranks: int) -> float:
    return serial + (1 - serial) * ranks


def efficiency(speedup: float, ranks: int) -> float:
    return speedup / ranks


def serial_fraction(speedup: float, ranks: int) -> float:
    return max(0.0, (1 / speedup - 1 / ranks) / (1 - 1 / ranks))
