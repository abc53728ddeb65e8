"""The layout of a launch over time."""

from collections.abc import Iterable

from hpml.ranks.evidence import MEETING, Call, RankEvidence

# Okabe and Ito, Color Universal Design (2008): distinct for colour-blind readers too.
PALETTE = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#0072B2", "#D55E00", "#999999")
IN_FLIGHT = 0.3  # opacity of a call that its rank does not wait for


def tint(number: int) -> str:
    """The palette's colour of that number, half white: text on it can be read, in grey too."""
    colour = PALETTE[number % len(PALETTE)]
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{(channel + 255) // 2:02x}" for channel in (red, green, blue))


def drawn_calls(rank: RankEvidence) -> list[Call]:
    """The calls of a rank without the one that makes the process group, which dwarfs the others."""
    return [call for call in rank.calls if call.operation not in MEETING]


def lanes(calls: Iterable[Call]) -> list[int]:
    """For each call the first lane that is free when it is issued."""
    ends: list[float] = []
    chosen = []
    for call in calls:
        end = float("inf") if call.finished is None else call.finished
        lane = next((k for k, until in enumerate(ends) if until <= call.issued), len(ends))
        ends[lane : lane + 1] = [end]
        chosen.append(lane)
    return chosen
