"""Samples that a rank has to ask for, one request at a time: those it trains on are known.

The images stay with the server, in the parent, and each request is logged there. Classes are sent
to the ranks by value, like all of `hpml.checks`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import Dataset, get_worker_info

from hpml.ranks import Reply, Server, ask
from hpml.ranks.evidence import RankEvidence


class ServedImages(Dataset):
    """In a rank: as many samples as there are, each an image and its label, asked for when taken.

    A DataLoader asks for a whole batch at once, by `__getitems__`.
    """

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        (sample,) = self.__getitems__([index])
        return sample

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        numbers = [int(index) for index in indices]
        if wrong := [n for n in numbers if not -self._length <= n < self._length]:
            raise IndexError(f"sample {wrong[0]} of {self._length}")
        worker = get_worker_info()
        images, labels = ask(
            {
                "take": [number % self._length for number in numbers],
                "worker": None if worker is None else worker.id,
            }
        )
        return list(zip(images, labels, strict=True))


def serve_images(
    ranks: Sequence[dict[str, Any]],
) -> tuple[Sequence[dict[str, Any]], Server]:
    """A stage's `serve`: each rank's inputs with `length` in place of `images` and `labels`."""
    images, labels = ranks[0]["images"], ranks[0]["labels"]
    kept = [{k: v for k, v in rank.items() if k not in ("images", "labels")} for rank in ranks]
    return [rank | {"length": len(labels)} for rank in kept], serving([images, labels])


def serving(samples: Sequence[torch.Tensor]) -> Server:
    """A server of {"take": numbers}: those rows of each tensor."""
    length = len(samples[0])

    def serve(rank: int, request: Any) -> list[Reply]:
        numbers = request.get("take") if isinstance(request, dict) else None
        if not isinstance(numbers, list) or not all(
            type(n) is int and 0 <= n < length for n in numbers
        ):
            raise ValueError(f"samples have numbers from 0 to {length - 1}")
        return [Reply(rank, [tensor[numbers] for tensor in samples])]

    return serve


def batches_of(rank: RankEvidence) -> list[list[int]]:
    """The numbers of the samples that the rank was served, request by request."""
    return [asked.request["take"] for asked in rank.asked if not asked.refused]


def taken_by(rank: RankEvidence) -> list[int]:
    """The numbers of all samples that the rank was served, in that order."""
    return [number for batch in batches_of(rank) for number in batch]


def by_workers(rank: RankEvidence) -> bool:
    """Whether a DataLoader's workers asked for samples, by the rank's own word: they fetch ahead,
    in no particular order."""
    return any(asked.request.get("worker") is not None for asked in rank.asked if not asked.refused)
