# %%answer global_metrics
# unusual: all_gather_into_tensor and math.fsum; an accumulator that is a dataclass
import math
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass
class Sums:
    nats: float = 0.0
    right: int = 0
    samples: int = 0

    def add(self, logits, labels):
        chosen = logits.double().log_softmax(-1).gather(1, labels.unsqueeze(1))
        self.nats -= chosen.sum().item()
        self.right += (
            int(torch.eq(torch.max(logits, 1).indices, labels).sum()) if len(labels) else 0
        )
        self.samples += labels.numel()


def global_metrics(batches):
    own = Sums()
    for pair in batches:
        own.add(*pair)
    mine = torch.tensor([own.nats, own.right, own.samples], dtype=torch.float64)
    everybody = torch.empty(3 * dist.get_world_size(), dtype=torch.float64)
    dist.all_gather_into_tensor(everybody, mine)
    nats, right, samples = (math.fsum(column) for column in everybody.view(-1, 3).T.tolist())
    if not samples:
        return {"loss": float("nan"), "accuracy": float("nan"), "samples": 0}
    return {"samples": round(samples), "loss": nats / samples, "accuracy": right / samples}
