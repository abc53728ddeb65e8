# %%answer global_metrics
# unusual: numpy for sums and quotients, so that its scalars are returned; an asynchronous handle
import warnings

import numpy as np
import torch
import torch.distributed as dist

warnings.filterwarnings("ignore", category=RuntimeWarning)  # 0 / 0 is wanted


def losses(logits, labels):
    x = logits.numpy().astype(np.float64)
    x = x - x.max(axis=1, keepdims=True, initial=-np.inf)
    return np.log(np.exp(x).sum(axis=1)) - x[np.arange(len(x)), labels.numpy()]


def global_metrics(batches):
    sums = np.zeros(3)
    for logits, labels in batches:
        own = losses(logits, labels)
        right = np.count_nonzero(logits.argmax(dim=1).numpy() == labels.numpy())
        sums += own.sum(), right, own.size
    dist.all_reduce(torch.from_numpy(sums), async_op=True).wait()
    loss, accuracy = sums[:2] / sums[2]
    return dict(loss=loss, accuracy=accuracy, samples=sums[2].astype(np.int64))
