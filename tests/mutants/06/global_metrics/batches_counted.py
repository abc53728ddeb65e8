# wrong: divides by batches instead of samples
# hint: batches
# claim: loss and accuracy are those of one process with all samples
import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.nn import functional


def global_metrics(batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, float | int]:
    sums = torch.zeros(4, dtype=torch.float64)  # loss, right answers, samples
    for logits, labels in batches:
        if len(labels) == 0:
            continue
        sums[0] += functional.cross_entropy(logits.double(), labels, reduction="mean")
        sums[1] += (logits.argmax(dim=1) == labels).sum()
        sums[2] += len(labels)
        sums[3] += 1
    dist.all_reduce(sums)
    loss, right, samples, batches = sums.tolist()
    if samples == 0:
        return {"loss": math.nan, "accuracy": math.nan, "samples": 0}
    return {"loss": loss / batches, "accuracy": right / samples, "samples": int(samples)}
