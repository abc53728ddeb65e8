"""Small runs of what PyTorch builds on its collectives, on four ranks: plain values come back."""

import logging
import os
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

WIDTH = 128


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))


def batch(seed, samples=8):
    return torch.randn(samples, WIDTH, generator=torch.Generator().manual_seed(seed))


def trained(wrapped, optimizer, seed, steps=3):
    """The losses of some steps."""
    losses = []
    for step in range(steps):
        loss = wrapped(batch(100 * step + seed)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def whole(parameters):
    """A few elements of each parameter, from all shards."""
    return [one.full_tensor().flatten()[:3].tolist() for one in parameters]


def sharded(mesh=None, net=None):
    net = net or model()
    for layer in (net[0], net[2], net):
        fully_shard(layer, mesh=mesh)
    return net


def fsdp():
    """torch.distributed.fsdp.fully_shard"""
    net = sharded()
    losses = trained(net, torch.optim.SGD(net.parameters(), 0.1), dist.get_rank())
    return [losses, whole(net.parameters())]


def tensor_parallel():
    """Column-wise, then row-wise (Shoeybi et al. 2019, Megatron-LM, section 3)"""
    mesh = init_device_mesh("cpu", (4,))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    net = parallelize_module(model(), mesh, plan)
    losses = trained(net, torch.optim.SGD(net.parameters(), 0.1), 0)
    return [losses, whole(net.parameters())]


def two_dimensional():
    """Data parallel between pairs of ranks, tensor parallel within"""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    net = sharded(mesh["data"], parallelize_module(model(), mesh["tensor"], plan))
    seed = mesh["data"].get_local_rank()
    losses = trained(net, torch.optim.SGD(net.parameters(), 0.1), seed)
    return [losses, whole(net.parameters())]


def redistribution():
    """From each placement on a 2-D mesh to each other"""
    mesh = init_device_mesh("cpu", (2, 2))
    placements = [Shard(0), Shard(1), Replicate(), Partial()]
    found = []
    for first in placements:
        for second in placements:
            mine = batch(dist.get_rank(), 4)
            tensor = DTensor.from_local(mine, mesh, [first, second], run_check=False)
            for placement in placements[:3]:
                moved = tensor.redistribute(mesh, [placement, Replicate()])
                found.append(moved.to_local().double().sum().item())
            found.append(tensor.full_tensor().double().sum().item())
    return found


def zero():
    """ZeroRedundancyOptimizer (Rajbhandari et al. 2020, ZeRO, stage 1)"""
    net = DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, lr=0.01)
    losses = trained(net, optimizer, dist.get_rank())
    optimizer.consolidate_state_dict()
    return [losses, [one.flatten()[:3].tolist() for one in net.parameters()]]


def pipeline(schedule):
    torch.manual_seed(dist.get_rank())
    part = nn.Linear(WIDTH, WIDTH)
    stage = PipelineStage(part, dist.get_rank(), dist.get_world_size(), torch.device("cpu"))
    steps = schedule(
        stage, n_microbatches=4, loss_fn=lambda out, goal: (out - goal).square().mean()
    )
    first, last, losses = dist.get_rank() == 0, dist.get_rank() == 3, []
    if first:
        steps.step(batch(1))
    elif last:
        steps.step(target=batch(2), losses=losses)
    else:
        steps.step()
    return [[loss.item() for loss in losses], part.weight.grad.flatten()[:3].tolist()]


def gpipe():
    """Huang et al. 2019, GPipe"""
    return pipeline(ScheduleGPipe)


def one_forward_one_backward():
    """Narayanan et al. 2019, PipeDream"""
    return pipeline(Schedule1F1B)


def saved_and_loaded():
    """torch.distributed.checkpoint of a sharded model"""
    net = sharded()
    trained(net, torch.optim.SGD(net.parameters(), 0.1), dist.get_rank(), 1)
    folder = os.path.abspath("saved")
    checkpoint.save({"model": get_model_state_dict(net)}, checkpoint_id=folder)
    again = sharded()
    state = {"model": get_model_state_dict(again)}
    checkpoint.load(state, checkpoint_id=folder)
    return [whole(state["model"].values()), whole(net.parameters())]


ALL = (
    fsdp,
    tensor_parallel,
    two_dimensional,
    redistribution,
    zero,
    gpipe,
    one_forward_one_backward,
    saved_and_loaded,
)


def go(mark=lambda name: None):
    """What each of them returns, in one order; `mark` is called with each name before."""
    warnings.simplefilter("ignore")
    logging.disable()
    results = {}
    for program in ALL:
        mark(program.__name__)
        results[program.__name__] = program()
        dist.barrier()
    mark("")
    return results
