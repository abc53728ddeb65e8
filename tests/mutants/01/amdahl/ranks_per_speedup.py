# wrong: divides ranks by speed-up
# hint: inverse
# claim: efficiency is what each rank contributes
def strong_speedup(serial: float, ranks: int) -> float:
    return 1 / (serial + (1 - serial) / ranks)


def weak_speedup(serial: float, ranks: int) -> float:
    return serial + (1 - serial) * ranks


def efficiency(speedup: float, ranks: int) -> float:
    return ranks / speedup


def serial_fraction(speedup: float, ranks: int) -> float:
    return (1 / speedup - 1 / ranks) / (1 - 1 / ranks)
