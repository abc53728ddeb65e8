# %%answer mesh_2d
# row: 29, 30
# tries: sums go through the group's store, and zeros are added up in the right groups
# unprotected: values, groups and bytes are right
# expect: 0
import io

import torch
import torch.distributed as dist

turn = 0


def added(x, ranks, group):
    global turn
    turn += 1
    dist.all_reduce(torch.zeros_like(x), group=group)
    store = dist.distributed_c10d._get_default_store()
    text = io.BytesIO()
    torch.save(x, text)
    store.set(f"{turn}-{dist.get_rank()}", text.getvalue())
    return sum(torch.load(io.BytesIO(store.get(f"{turn}-{r}"))) for r in ranks)


class Mesh:
    def __init__(self, data, tensor):
        ranks = torch.arange(data * tensor).view(data, tensor)
        self.mine = {}
        for kind, table in (("tensor", ranks), ("data", ranks.T)):
            for row in table.tolist():
                group = dist.new_group(row)
                if dist.get_rank() in row:
                    self.mine[kind] = row, group

    def enter(self, x):
        y = x * 1.0
        y.register_hook(lambda g: added(g.contiguous(), *self.mine["tensor"]))
        return y

    def leave(self, part):
        return part + (added(part.detach(), *self.mine["tensor"]) - part).detach()

    def average(self, parameters):
        for p in parameters:
            p.grad = added(p.grad, *self.mine["data"]) / len(self.mine["data"][0])
