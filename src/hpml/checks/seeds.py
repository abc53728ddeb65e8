"""From one seed to many numbers, none of which leads back to it or to another.

The seed of a check decides all inputs, so an answer must not learn it. The inputs at each world
size are drawn from a number of their own, and so is whatever an answer is given to draw from.
"""

from hashlib import sha256


def of_play(seed: int, world_size: int, delayed: bool = False) -> int:
    """What the inputs of one play are drawn from, in [0, 2**62)."""
    return _digest(seed, "play", world_size, delayed) % 2**62


def derived(seed: int, purpose: str) -> int:
    """A number in [0, 2**31) for one `purpose`, which may be sent to where an answer runs."""
    return _digest(seed, purpose) % 2**31


def _digest(*what: object) -> int:
    return int.from_bytes(sha256(repr(what).encode()).digest(), "big")
