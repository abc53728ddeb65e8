# %%answer hello_ranks
# unusual: a device mesh and a DTensor whose parts are summands
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial


def hello(number: int) -> int:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("ranks",))
    summand = DTensor.from_local(torch.tensor([number]), mesh, [Partial("sum")])
    return summand.full_tensor().item()
