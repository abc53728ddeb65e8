# %%answer global_metrics
# unusual: torch.distributed.nn's all_reduce, a confusion matrix, reduce over a generator
from functools import reduce

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as collective


def sums(batch):
    logits, labels = batch
    x = logits.to(torch.float64)
    nats = torch.logsumexp(x, dim=1) - x[torch.arange(len(x)), labels]
    classes = x.shape[1]
    confusion = torch.bincount(labels * classes + x.argmax(1), minlength=classes**2)
    hits = confusion.view(classes, classes).diagonal().sum()
    return torch.stack([nats.sum(), hits.double(), torch.tensor(float(len(labels))).double()])


def global_metrics(batches):
    own = reduce(torch.add, map(sums, batches), torch.zeros(3, dtype=torch.float64))
    nats, hits, samples = collective.all_reduce(own, op=dist.ReduceOp.SUM).tolist()
    share = [total / samples if samples else float("nan") for total in (nats, hits)]
    return {"loss": share[0], "accuracy": share[1], "samples": int(samples)}
