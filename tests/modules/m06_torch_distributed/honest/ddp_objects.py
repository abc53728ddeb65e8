# %%answer ddp
# unusual: the start travels as a pickled object; old-fashioned hooks on gradient accumulators
import collections

import torch.distributed as dist
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class DataParallel(nn.Module):
    def __init__(self, module, bucket_bytes=2**20):
        super().__init__()
        self.module = module
        box = [dict(module.state_dict())]
        dist.broadcast_object_list(box, src=0)
        module.load_state_dict(box[0])

        self.accumulators = []  # alive as long as the hooks shall be
        self.buckets, used = [], bucket_bytes
        for parameter in [p for p in module.parameters() if p.requires_grad][::-1]:
            size = parameter.numel() * parameter.element_size()
            if used + size > bucket_bytes:
                self.buckets.append([])
                used = 0
            used += size
            self.buckets[-1].append(parameter)
        self.pending = collections.OrderedDict()
        self.counts = collections.Counter()
        for number, bucket in enumerate(self.buckets):
            for parameter in bucket:
                node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
                node.register_hook(lambda *_, number=number: self.count(number))
                self.accumulators.append(node)

    def forward(self, *inputs, **options):
        self.pending.clear()
        self.counts.clear()
        return self.module(*inputs, **options)

    def count(self, number):
        self.counts[number] += 1
        while (following := len(self.pending)) < len(self.buckets) and self.counts[
            following
        ] == len(self.buckets[following]):
            self.launch(following)

    def launch(self, number):
        gradients = [p.grad if p.grad is not None else p.detach() * 0 for p in self.buckets[number]]
        flat = _flatten_dense_tensors(gradients) / dist.get_world_size()
        self.pending[number] = gradients, flat, dist.all_reduce(flat, async_op=True)

    def synchronize(self):
        while len(self.pending) < len(self.buckets):
            self.launch(len(self.pending))
        for number, (gradients, flat, work) in self.pending.items():
            work.wait()
            for parameter, mean in zip(
                self.buckets[number], _unflatten_dense_tensors(flat, gradients)
            ):
                parameter.grad = mean
