# wrong: returns how long it takes and not how much faster it is
# hint: seconds
# claim: the speed-up of a problem that stays as it is
def strong_speedup(serial: float, ranks: int) -> float:
    return serial + (1 - serial) / ranks


def weak_speedup(serial: float, ranks: int) -> float:
    return serial + (1 - serial) * ranks


def efficiency(speedup: float, ranks: int) -> float:
    return speedup / ranks


def serial_fraction(speedup: float, ranks: int) -> float:
    return (1 / speedup - 1 / ranks) / (1 - 1 / ranks)
