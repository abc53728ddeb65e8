# %%answer mesh_2d
# unusual: torch's device mesh for the groups, gradients divided before they are added up
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh


class Mesh:
    def __init__(self, data, tensor):
        mesh = init_device_mesh("cpu", (data, tensor), mesh_dim_names=("data", "tensor"))
        self.groups = {name: mesh.get_group(name) for name in ("data", "tensor")}

    def enter(self, x):
        class Enter(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x: x.clone())

            @staticmethod
            def backward(ctx, g):
                g = g.clone()
                dist.all_reduce(g, group=self.groups["tensor"])
                return g

        return Enter.apply(x)

    def leave(self, part):
        class Leave(torch.autograd.Function):
            backward = staticmethod(lambda ctx, g: g)

            @staticmethod
            def forward(ctx, part):
                y = part.clone()
                dist.all_reduce(y, group=self.groups["tensor"])
                return y

        return Leave.apply(part)

    @torch.no_grad()
    def average(self, parameters):
        size = dist.get_world_size(self.groups["data"])
        for p in reversed(list(parameters)):
            p.grad.div_(size)
            dist.all_reduce(p.grad, group=self.groups["data"])
