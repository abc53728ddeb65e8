"""What a rank's requests show: when each augmentation and each step began and ended.

Requests come one at a time, so their order is the order of what happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hpml.modules.m04_frameworks.checks._served_augmentations import EPOCHS
from hpml.ranks.evidence import Counts, RankEvidence


@dataclass(frozen=True)
class Epoch:
    """What a rank asked for in one epoch of one pipeline.

    `calls` are the numbers of its augmentations, `spans` the places of the first and the last
    request of each; `steps` those of each step.
    """

    pipeline: int
    epoch: int
    spans: dict[int, tuple[int, int]]
    steps: list[tuple[int, int]]

    @property
    def calls(self) -> list[int]:
        return sorted(self.spans)

    def overlapping(self) -> int:
        """How many augmentations were under way at the same time as another one."""
        return sum(
            any(
                one[0] < other[1] and other[0] < one[1]
                for number, other in self.spans.items()
                if number != call
            )
            for call, one in self.spans.items()
        )

    def ended_by(self, place: int) -> int:
        return sum(last < place for _, last in self.spans.values())

    def begun_by(self, place: int) -> int:
        return sum(first < place for first, _ in self.spans.values())


def epochs_of(rank: RankEvidence) -> tuple[list[Epoch], list[bytes]]:
    """All epochs in order, and the image of each augmentation, by its number."""
    epochs: list[Epoch] = []
    images: list[bytes] = []
    pipeline = -1
    asked = [one for one in rank.asked if not one.refused]
    for place, one in enumerate(asked):
        request = one.request
        if isinstance(request, dict) and "epoch" in request:
            pipeline += request["epoch"] == 0
            epochs.append(Epoch(pipeline, request["epoch"], {}, []))
        elif isinstance(request, dict) and "augment" in request:
            if epochs:
                epochs[-1].spans[len(images)] = (place, place)
            images.append(request["augment"])
        elif isinstance(request, dict) and "goes on" in request and epochs:
            number = request["goes on"]
            if number in epochs[-1].spans:
                epochs[-1].spans[number] = (epochs[-1].spans[number][0], place)
        elif request == "step" and epochs:
            epochs[-1].steps.append((place, place))
        elif request == "stepping" and epochs and epochs[-1].steps:
            epochs[-1].steps[-1] = (epochs[-1].steps[-1][0], place)
    return epochs, images


def counts_by_epoch(rank: RankEvidence) -> list[Counts | None]:
    """What the kernel had counted when each epoch of the first pipeline began, and at its end."""
    counts = [one.counts for one in rank.asked if not one.refused and "augment" not in one.request]
    return counts[: EPOCHS + 1]


def opened_by_epoch(rank: RankEvidence, files: Sequence[str]) -> list[int] | None:
    """How often the files had been opened then; None where that cannot be seen. A process
    that wrote them has opened them too."""
    counts = counts_by_epoch(rank)
    if any(one is None or one.opened is None for one in counts):
        return None
    return [sum(one.opened.get(name, 0) for name in files) for one in counts]


def read_by_epoch(rank: RankEvidence) -> list[int] | None:
    """How many bytes had been read then; None where that cannot be seen."""
    counts = counts_by_epoch(rank)
    if any(one is None or one.read_bytes is None for one in counts):
        return None
    return [one.read_bytes for one in counts]
