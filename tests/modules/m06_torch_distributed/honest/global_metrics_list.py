# %%answer global_metrics
# unusual: all_gather into a list, float64 is the default dtype, a generator of batches is kept
import torch
import torch.distributed as dist
from torch import nn

torch.set_default_dtype(torch.float64)


class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.criterion = nn.CrossEntropyLoss(reduction="none")
        self.register_buffer("totals", torch.zeros(3))

    @torch.inference_mode()
    def forward(self, logits, labels):
        losses = self.criterion(logits.to(self.totals), labels)
        hits = (logits.argmax(-1) == labels).to(self.totals)
        self.totals = self.totals + torch.stack(
            [losses.sum(), hits.sum(), losses.new_tensor(len(labels))]
        )


def global_metrics(batches):
    meter = Meter().eval()
    for batch in list(batches):
        meter(*batch)
    parts = [torch.zeros(3) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, meter.totals.clone())
    loss, hits, samples = torch.stack(parts).sum(0)
    return {
        "loss": (loss / samples).item(),
        "accuracy": (hits / samples).item(),
        "samples": int(samples),
    }
