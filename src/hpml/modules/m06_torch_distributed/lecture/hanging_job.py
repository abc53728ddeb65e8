"""A data parallel job that hangs, for one of two reasons: HPML_BUG is "stuck" or "short"."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist

BUG = os.environ.get("HPML_BUG", "")
LIMIT = timedelta(seconds=float(os.environ.get("HPML_LIMIT", 1800)))
MONITOR = os.environ.get("HPML_MONITOR") == "1"


def read_batch(rank: int, step: int) -> torch.Tensor:
    if BUG == "stuck" and rank == 1 and step == 2:
        silent, _ = os.pipe()
        os.read(silent, 1)  # storage that never answers
    return torch.randn(8, 16)


def average_gradients(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def train(rank: int, model: torch.nn.Module) -> None:
    for step in range(3 if BUG == "short" and rank == 1 else 4):  # rank 1 has a batch less
        batch = read_batch(rank, step)
        if MONITOR:
            dist.monitored_barrier(timeout=LIMIT)
        model(batch).square().mean().backward()
        average_gradients(model)
        print(f"rank {rank}: step {step} done", flush=True)
    dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo", timeout=LIMIT)
    train(dist.get_rank(), torch.nn.Linear(16, 4))
    dist.destroy_process_group()
