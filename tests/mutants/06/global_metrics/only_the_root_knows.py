# wrong: reduces to rank 0, and the others report what they have
# hint: own
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
    dist.reduce(sums, dst=0)
    loss, right, samples = sums.tolist()
    if samples == 0:
        return {"loss": math.nan, "accuracy": math.nan, "samples": 0}
    return {"loss": loss / samples, "accuracy": right / samples, "samples": int(samples)}
