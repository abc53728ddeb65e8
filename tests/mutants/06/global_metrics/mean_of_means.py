# wrong: averages the ranks' averages
# hint: means
# claim: loss and accuracy are those of one process with all samples
import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.nn import functional


def global_metrics(batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, float | int]:
    sums = torch.zeros(3, dtype=torch.float64)  # loss, right answers, samples
    for logits, labels in batches:
        sums[0] += functional.cross_entropy(logits.double(), labels, reduction="sum")
        sums[1] += (logits.argmax(dim=1) == labels).sum()
        sums[2] += len(labels)
    count = sums[2].item()
    means = sums / max(count, 1)
    means[2] = count
    filled = torch.tensor([float(count > 0)], dtype=torch.float64)
    both = torch.cat([means, filled])
    dist.all_reduce(both)
    loss, right, samples, ranks = both.tolist()
    if samples == 0:
        return {"loss": math.nan, "accuracy": math.nan, "samples": 0}
    return {"loss": loss / ranks, "accuracy": right / ranks, "samples": int(samples)}
