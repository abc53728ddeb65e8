# wrong: a rank leaves out of its message the gradients that it has not got
# hint: mismatch
import torch
import torch.distributed as dist
from torch import nn


class DataParallel(nn.Module):
    """Keep one model per rank, all alike, by averaging their gradients.

    `module` is wrapped, not copied. Once this is constructed, its parameters and buffers are rank
    0's on every rank. Its trained parameters are dealt to buckets, last parameter first, each
    once: a bucket takes parameters as long as they fit into `bucket_bytes`; one that is larger
    than that has a bucket of its own.
    """

    def __init__(self, module: nn.Module, bucket_bytes: int = 2**20) -> None:
        super().__init__()
        self.module = module
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)

        self.buckets: list[list[nn.Parameter]] = []
        self.bucket_of: dict[nn.Parameter, int] = {}
        room = 0
        # parameters() lists a tied weight once.
        for parameter in reversed(list(module.parameters())):
            if not parameter.requires_grad:
                continue
            size = parameter.numel() * parameter.element_size()
            if not self.buckets or size > room:
                self.buckets.append([])
                room = bucket_bytes
            self.buckets[-1].append(parameter)
            room -= size
            self.bucket_of[parameter] = len(self.buckets) - 1
            parameter.register_post_accumulate_grad_hook(self.gradient_ready)
        self.prepare()

    def forward(self, *inputs, **options):
        """What `module` makes of it."""
        return self.module(*inputs, **options)

    def synchronize(self) -> None:
        """Call after backward(), before the optimizer: returns when every p.grad is the mean.

        A parameter that got no gradient on this rank counts as zero in the mean.
        """
        while len(self.sent) < len(self.buckets):
            self.send()
        for bucket, (flat, work) in zip(self.buckets, self.sent, strict=True):
            work.wait()
            used = [parameter for parameter in bucket if parameter.grad is not None]
            means = flat.split([parameter.numel() for parameter in used])
            for parameter, mean in zip(used, means, strict=True):
                parameter.grad = mean.view_as(parameter)
        self.prepare()

    def prepare(self) -> None:
        self.sent = []
        self.missing = [len(bucket) for bucket in self.buckets]

    def gradient_ready(self, parameter: nn.Parameter) -> None:
        self.missing[self.bucket_of[parameter]] -= 1
        # Buckets leave in the same order on every rank, even if a later one is complete earlier.
        while len(self.sent) < len(self.buckets) and not self.missing[len(self.sent)]:
            self.send()

    def send(self) -> None:
        bucket = self.buckets[len(self.sent)]
        there = [p.grad.flatten() for p in bucket if p.grad is not None]
        flat = torch.cat(there) if there else torch.zeros(0, dtype=bucket[0].dtype)
        flat /= dist.get_world_size()
        self.sent.append((flat, dist.all_reduce(flat, async_op=True)))
