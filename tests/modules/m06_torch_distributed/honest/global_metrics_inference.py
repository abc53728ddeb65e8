# %%answer global_metrics
# unusual: all of it in inference mode, the all-reduce too
import torch
import torch.distributed as dist
from torch.nn import functional as F


@torch.inference_mode()
def global_metrics(batches):
    totals = torch.zeros(3, dtype=torch.float64)
    for logits, labels in batches:
        totals[0] += F.cross_entropy(logits, labels, reduction="sum")
        totals[1] += (logits.argmax(-1) == labels).sum()
        totals[2] += len(labels)
    dist.all_reduce(totals)
    loss, accuracy = (totals[:2] / totals[2]).tolist()
    return {"loss": loss, "accuracy": accuracy, "samples": int(totals[2])}
