# %%answer mesh_2d
# unusual: a table of groups by their ranks, all gradients in one message, in float64 and copied
# back, autograd by hooks and by a detached difference, nothing sent on a dimension of one rank
import itertools

import torch
import torch.distributed as dist


class Mesh:
    def __init__(self, data, tensor):
        me = dist.get_rank()
        lists = [[d * tensor + t for t in range(tensor)] for d in range(data)]
        lists += [list(column) for column in zip(*lists)]
        made = [(ranks, dist.new_group(ranks)) for ranks in lists]
        self.row, self.column = (group for ranks, group in made if me in ranks)
        self.sizes = data, tensor

    def summed(self, x):
        if self.sizes[1] > 1:
            dist.all_reduce(x, group=self.row)
        return x

    def enter(self, x):
        y = x * 1.0
        if y.requires_grad:
            y.register_hook(lambda g: self.summed(g.clone()))
        return y

    def leave(self, part):
        total = self.summed(part.detach().clone())
        return part + (total - part).detach()

    def average(self, parameters):
        if self.sizes[0] == 1:
            return
        grads = [p.grad for p in parameters]
        flat = torch.cat([g.flatten() for g in grads])
        work = dist.all_reduce(flat, group=self.column, async_op=True)
        work.wait()
        ends = list(itertools.accumulate(g.numel() for g in grads))
        for g, end in zip(grads, ends):
            g.copy_(flat[end - g.numel() : end].view_as(g) / self.sizes[0])
