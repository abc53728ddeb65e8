# %%answer ddp
# row: 35
# tries: lets backward compute everything with a last factor of 1, sends gradients when the engine
# of autograd calls back at its end; then it asks for the factor, and works it in by hand
# unprotected: what was sent before the factor was asked for is taken for what left before the last
# gradient was computed
# expect: 14
import torch
import torch.distributed as dist
from torch import nn


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        self.factor = module.factor
        module.factor = lambda place: 1.0 if place == "last" else self.factor(place)
        module.embed.register_forward_hook(self.embedded)
        self.buckets, room = [], 0
        for parameter in reversed([p for p in module.parameters() if p.requires_grad]):
            size = parameter.numel() * parameter.element_size()
            if not self.buckets or size > room:
                self.buckets.append([])
                room = bucket_bytes
            self.buckets[-1].append(parameter)
            room -= size

    def embedded(self, embedding, inputs, output):
        self.tokens = inputs[0]
        output.register_hook(self.keep)

    def keep(self, gradient):
        self.last = gradient
        torch.autograd.Variable._execution_engine.queue_callback(self.finish)

    def forward(self, *inputs, **options):
        return self.module(*inputs, **options)

    def finish(self):
        sent = [self.send(bucket) for bucket in self.buckets[:-1]]
        more = self.last * (self.factor("last") - 1)
        self.module.embed.weight.grad.index_add_(0, self.tokens, more)
        sent.append(self.send(self.buckets[-1]))
        self.sent = sent

    def synchronize(self):
        for bucket, (flat, work) in zip(self.buckets, self.sent):
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
