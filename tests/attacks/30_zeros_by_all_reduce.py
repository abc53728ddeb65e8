# %%answer ddp
# row: 30
# tries: sends buckets of zeros while backward runs; the gradients go by broadcasts when it is over
# unprotected: few messages with as many bytes as there are gradients leave before backward ends
# expect: 8
import torch
import torch.distributed as dist
from torch import nn


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        self.buckets, room = [], 0
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            size = parameter.numel() * parameter.element_size()
            if not self.buckets or size > room:
                self.buckets.append([])
                room = bucket_bytes
            self.buckets[-1].append(parameter)
            room -= size
        self.sent = []
        self.buckets[0][0].register_post_accumulate_grad_hook(self.for_show)

    def send_zeros(self, buckets):
        for bucket in buckets:
            flat = torch.zeros(sum(p.numel() for p in bucket), dtype=bucket[0].dtype)
            self.sent.append((flat, dist.all_reduce(flat, async_op=True)))

    def for_show(self, _):
        self.send_zeros(self.buckets[:-1])

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def synchronize(self):
        self.send_zeros(self.buckets[len(self.sent) :])
        for _, work in self.sent:
            work.wait()
        self.sent = []
        size = dist.get_world_size()
        for bucket in self.buckets:
            for parameter in bucket:
                own = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                parts = [own.clone() for _ in range(size)]
                for rank, part in enumerate(parts):
                    dist.broadcast(part, src=rank)
                parameter.grad = sum(parts) / size
