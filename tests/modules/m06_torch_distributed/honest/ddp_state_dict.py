# %%answer ddp
# unusual: what state_dict() lists is broadcast, so a tied weight twice; functools.partial as hooks
from functools import partial

import torch
import torch.distributed as dist
from torch import nn


class DataParallel(nn.Module):
    def __init__(self, module: nn.Module, bucket_bytes: int = 2**20) -> None:
        super().__init__()
        self.module = module
        for name, tensor in module.state_dict().items():
            dist.broadcast(tensor, src=0)
        self.plan = []
        for p in list(module.parameters())[::-1]:
            if p.requires_grad:
                if not self.plan or self.bytes(*self.plan[-1], p) > bucket_bytes:
                    self.plan.append([])
                self.plan[-1].append(p)
        for index, bucket in enumerate(self.plan):
            for p in bucket:
                p.register_post_accumulate_grad_hook(partial(self.arrived, index))
        self.fresh()

    @staticmethod
    def bytes(*parameters):
        return sum(p.nelement() * p.element_size() for p in parameters)

    def fresh(self):
        self.there = [0] * len(self.plan)
        self.flying = []

    def forward(self, *inputs, **options):
        if self.flying:
            raise RuntimeError("synchronize first")
        return self.module(*inputs, **options)

    def arrived(self, index, parameter):
        self.there[index] += 1
        while len(self.flying) < len(self.plan):
            following = len(self.flying)
            if self.there[following] < len(self.plan[following]):
                return
            self.depart(following)

    def depart(self, index):
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.plan[index]]
        flat = torch.hstack([g.reshape(-1) for g in grads])
        self.flying.append((dist.all_reduce(flat, async_op=True), flat))

    def synchronize(self) -> None:
        for index in range(len(self.flying), len(self.plan)):
            self.depart(index)
        for bucket, (work, flat) in zip(self.plan, self.flying):
            work.wait()
            flat.div_(dist.get_world_size())
            at = 0
            for p in bucket:
                p.grad = flat[at : at + p.numel()].view(p.shape)
                at += p.numel()
        self.fresh()
