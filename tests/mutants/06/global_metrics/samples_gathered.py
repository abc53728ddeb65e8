# wrong: sends all samples to all ranks
# hint: messages
# claim: one small message carries all sums, in float64
import math
from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.nn import functional


def global_metrics(batches: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, float | int]:
    shards = [None] * dist.get_world_size()
    dist.all_gather_object(shards, list(batches))
    batches = [batch for shard in shards for batch in shard]
    sums = torch.zeros(3, dtype=torch.float64)  # loss, right answers, samples
    for logits, labels in batches:
        sums[0] += functional.cross_entropy(logits.double(), labels, reduction="sum")
        sums[1] += (logits.argmax(dim=1) == labels).sum()
        sums[2] += len(labels)
    loss, right, samples = sums.tolist()
    if samples == 0:
        return {"loss": math.nan, "accuracy": math.nan, "samples": 0}
    return {"loss": loss / samples, "accuracy": right / samples, "samples": int(samples)}
