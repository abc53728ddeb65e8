# %%answer ddp
# row: 30
# tries: sends two buckets of zeros while backward runs, and all gradients when it is over
# unprotected: enough bytes have left early, and twice the gradients' bytes they are not
# expect: 13
import torch
import torch.distributed as dist
from torch import nn


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        module.head.register_full_backward_hook(self.show)
        self.buckets, room = [], 0
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            size = parameter.numel() * parameter.element_size()
            if not self.buckets or size > room:
                self.buckets.append([])
                room = bucket_bytes
            self.buckets[-1].append(parameter)
            room -= size

    def show(self, *_):
        zeros = torch.zeros(2, 4200, dtype=torch.float64)
        self.shown = [dist.all_reduce(half, async_op=True) for half in zeros]

    def forward(self, *inputs, **options):
        return self.module(*inputs, **options)

    def synchronize(self):
        sent = [self.send(bucket) for bucket in self.buckets]
        for bucket, (flat, work) in zip(self.buckets, sent):
            work.wait()
            means = flat.split([parameter.numel() for parameter in bucket])
            for parameter, mean in zip(bucket, means):
                parameter.grad = mean.view_as(parameter)

    def send(self, bucket):
        flat = torch.cat(
            [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket]
        )
        flat /= dist.get_world_size()
        return flat, dist.all_reduce(flat, async_op=True)
