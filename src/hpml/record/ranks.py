"""Ranks of one measurement on this machine, which end with it: they stay in its process group."""

import os
import socket
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from hpml.train.leaving import leave

TIMEOUT = timedelta(seconds=60)  # of a collective


def run(work: Callable[..., Any], ranks: int, backend: str, *arguments: Any) -> list[Any]:
    """What `work(*arguments)` returns on each rank of a process group over the loopback interface.

    With "nccl" a rank has the GPU of its number; with "gloo" all share the first one. `work` must
    be a module's function. Raises what torch.multiprocessing raises where a rank fails.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(
            _rank, args=(work, ranks, backend, port, folder, arguments), nprocs=ranks
        )
        return [torch.load(Path(folder) / f"{rank}.pt") for rank in range(ranks)]


def _rank(
    rank: int,
    work: Callable[..., Any],
    ranks: int,
    backend: str,
    port: int,
    folder: str,
    arguments: tuple[Any, ...],
) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(ranks), "GROUP_RANK": "0"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    if torch.cuda.is_available():
        torch.cuda.set_device(rank if backend == "nccl" else 0)
    dist.init_process_group(backend, timeout=TIMEOUT)
    try:
        torch.save(work(*arguments), Path(folder) / f"{rank}.pt")
    finally:
        dist.destroy_process_group()
    leave(0)
