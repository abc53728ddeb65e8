"""Other ways to make a batch ready than as a whole, between two steps.

A batch has the same pixels in each way: what differs is the time it takes, and who waits for it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import record_function

from hpml.data import Split, normalize

AHEAD = 2  # batches that are ready, or being made ready, while one is trained on
T = TypeVar("T")


def ahead(
    ready: Callable[[Tensor, int], T], batches: Sequence[Tensor], begins: Sequence[int]
) -> Iterator[T]:
    """`ready(index, begin)` for each batch, in order, called in a thread up to AHEAD batches early.

    Errors of `ready` are raised where its batch is due.
    """
    asked = iter(zip(batches, begins, strict=True))
    with ThreadPoolExecutor(1, "loader") as thread:
        coming = deque(thread.submit(ready, *each) for each in islice(asked, AHEAD))
        while coming:
            batch = coming.popleft().result()
            if (each := next(asked, None)) is not None:
                coming.append(thread.submit(ready, *each))
            yield batch


def image_by_image(
    split: Split, index: Tensor, mirrored: Tensor, draws: torch.Generator, most: int
) -> tuple[Tensor, Tensor]:
    """A batch made an image at a time, as a map-style Dataset and a DataLoader make it.

    `index` int64 [B], `mirrored` bool [B]; `draws` gives the shifts, up to `most` pixels, that
    `hpml.data.augment` would draw. Pixels float32 [B, 3, 32, 32], normalised; labels int64 [B].
    """
    shifts = torch.randint(-most, most + 1, (2, len(index), 1), generator=draws).squeeze(2).T
    made, labels = [], []
    with record_function("loading"):
        for number, (down, right), mirror in zip(
            index.tolist(), shifts.tolist(), mirrored.tolist(), strict=True
        ):
            image = torch.from_numpy(split.images[number])
            image = image.flip(2) if mirror else image
            height, width = image.shape[1:]
            wider = F.pad(image[None].float(), (most, most, most, most), "reflect")
            top, left = most + down, most + right
            made.append(normalize(wider[:, :, top : top + height, left : left + width])[0])
            labels.append(int(split.labels[number]))
        return torch.stack(made), torch.tensor(labels)
