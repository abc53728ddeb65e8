"""What to run on: device, precision, memory, and the back end that goes with them."""

import contextlib
import socket
from collections.abc import Iterator
from datetime import timedelta

import torch
from torch import distributed as dist

from hpml.distributed_environment import ProcessInfo
from hpml.errors import UserError


def pick_device(asked: str, local_rank: int) -> torch.device:
    """The device for "auto", "cpu" or "cuda": GPU `local_rank` of the node, where there is one."""
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UserError("--device is cuda, and PyTorch sees no GPU here: use --device cpu")
    # SLURM may show each task one GPU only (--gpus-per-task); it is number 0 for every one of them.
    device = torch.device("cuda", local_rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def has_bf16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 faster than float32.

    On a CPU: its flags have AVX512-BF16 or AMX (x86), or BF16 (ARM). Without, PyTorch would compute
    in bfloat16 too, but by converting to float32 and back, which is slower than float32 itself.
    """
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    flags = torch.cpu.get_capabilities()
    return any(flags.get(flag) for flag in ("avx512_bf16", "amx_bf16", "bf16"))


def pick_precision(asked: str, device: torch.device) -> torch.dtype:
    """The dtype of convolutions and matrix products for "auto", "bf16" or "fp32"."""
    if asked == "fp32" or (asked == "auto" and not has_bf16(device)):
        return torch.float32
    return torch.bfloat16


@contextlib.contextmanager
def process_group(process: ProcessInfo, device: torch.device) -> Iterator[None]:
    """Meet the other ranks, if there are any; gloo on CPUs, nccl on GPUs.

    A group that is there already is used, and left as it is. Raises UserError where the name of
    rank 0's node cannot be resolved: PyTorch would retry until its timeout.
    """
    if process.world_size == 1 or dist.is_initialized():
        yield
        return
    try:
        socket.getaddrinfo(process.address, process.port)
    except OSError as error:
        raise UserError(
            f"rank {process.rank} cannot find rank 0's node {process.address!r} "
            f"({error.strerror}): set MASTER_ADDR to a name or an address that all nodes know"
        ) from None
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=f"tcp://{process.address}:{process.port}",
        rank=process.rank,
        world_size=process.world_size,
        timeout=timedelta(minutes=10),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()
