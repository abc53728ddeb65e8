"""Loss and accuracy over uneven shards: add up first, over all ranks, and divide once."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from hpml.train import backends


class Totals:
    """Sum of losses, number of right answers, number of images, as far as this rank has counted.

    The mean of the ranks' means would weigh an image on a small shard more than one on a large one.
    Sums are float64 on `device`: exact for counts, and nothing waits for the device until `means`.
    """

    def __init__(self, device: torch.device | str = "cpu", sums: Sequence[float] | None = None):
        self.sums = torch.tensor(sums or [0, 0, 0], dtype=torch.float64, device=device)

    def add(self, logits: Tensor, labels: Tensor, losses: Tensor | None = None) -> None:
        """Count a batch: logits [B, C], labels int64 [B], losses [B] if they are known already."""
        with torch.no_grad():
            if losses is None:
                losses = F.cross_entropy(logits.float(), labels, reduction="none")
            right = (logits.argmax(dim=1) == labels).sum()
            self.sums += torch.stack(
                [losses.sum().double(), right.double(), right.new_tensor(len(labels)).double()]
            )

    def over_ranks(self) -> Tensor:
        """The three sums over all ranks, float64 [3] on the CPU. A collective."""
        sums = self.sums.clone()
        backends.there().sum(sums)
        return sums.cpu()


def means(sums: Tensor) -> tuple[float, float]:
    """Mean loss and accuracy in [0, 1] from the three sums; nan where nothing was counted."""
    loss, right, count = sums.tolist()
    return (loss / count, right / count) if count else (float("nan"), float("nan"))
