"""Horovod as a back end of the training script, however its processes were started.

horovodrun and mpirun give Horovod the address where its ranks meet. Under torchrun and srun, which
do not, rank 0 serves the store that horovodrun would, and puts its address in torch's own store.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import horovod.torch as hvd
import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous
from torch.optim import Optimizer

from hpml.distributed_environment import ProcessInfo
from hpml.errors import UserError
from hpml.ranks.flavour import horovod_environment
from hpml.ranks.proxy.rendezvous import Store, listen
from hpml.train.backend import Backend

LIMIT = timedelta(minutes=10)  # for the others to come
CYCLE = "10"  # milliseconds; a step on a CPU takes a hundred times as long
_kept: list[dist.Store] = []


class Horovod(Backend):
    """Horovod's ranks, and its DistributedOptimizer."""

    def __init__(self) -> None:
        self.rank, self.world_size = hvd.rank(), hvd.size()

    def sum(self, tensor: Tensor) -> None:
        hvd.allreduce_(tensor, op=hvd.Sum)

    def maximum(self, tensor: Tensor) -> None:
        hvd.allreduce_(tensor, op=hvd.Max)

    def parallel(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        if self.world_size == 1:
            return network, optimizer
        for handle in [
            hvd.broadcast_async_(in_storage_order(value), root_rank=0, name=name)
            for name, value in network.state_dict().items()
        ]:
            hvd.synchronize(handle)
        wrapped = hvd.DistributedOptimizer(
            optimizer,
            named_parameters=network.named_parameters(),
            compression=StorageOrder,
        )
        return network, wrapped


class StorageOrder:
    """In the place of a compression: hands Horovod each gradient as it lies in memory.

    Horovod takes contiguous tensors only, and those of convolutions lie channels last.
    """

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, Tensor]:
        return in_storage_order(tensor), tensor

    @staticmethod
    def decompress(_: Tensor, tensor: Tensor) -> Tensor:
        return tensor  # reduced in place, by way of its view


def in_storage_order(tensor: Tensor) -> Tensor:
    """A contiguous view of the same memory. Raises ValueError where there is none."""
    order = sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
    view = tensor.permute(order)
    if not view.is_contiguous():
        raise ValueError(f"strides {tensor.stride()} leave gaps, or overlap")
    return view


@contextlib.contextmanager
def initialised(process: ProcessInfo) -> Iterator[None]:
    """Initialise Horovod for the context, if it is not yet. UserError where ranks do not meet."""
    if hvd.is_initialized():
        yield
        return
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(int(LIMIT.total_seconds())))
    if not torch.cuda.is_available():
        # By default Horovod's thread polls every millisecond, which takes a tenth of a core.
        os.environ.setdefault("HOROVOD_CYCLE_TIME", CYCLE)
    if process.launcher not in ("horovodrun", "mpirun"):
        os.environ |= _own_meeting(process)
    hvd.init()
    if (hvd.rank(), hvd.size()) != (process.rank, process.world_size):
        raise UserError(
            f"{process.launcher} says rank {process.rank} of {process.world_size}, Horovod says "
            f"{hvd.rank()} of {hvd.size()}: was MPI installed later? ./hpml horovod adds it"
        )
    if torch.cuda.is_available():
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())
    try:
        yield
    finally:
        hvd.shutdown()


def _own_meeting(process: ProcessInfo) -> dict[str, str]:
    """Horovod's environment for ranks that no launcher of Horovod's has started."""
    hosts = [socket.gethostname()]
    where = {}
    if process.world_size > 1:
        store = _torch_store(process)
        store.set(f"host {process.rank}", hosts[0])
        if process.rank == 0:
            listener = listen("", 0)
            threading.Thread(target=_serve, args=(listener,), daemon=True).start()
            store.set("port", str(listener.getsockname()[1]))
        hosts = [store.get(f"host {rank}").decode() for rank in range(process.world_size)]
        where = {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": process.address,
            "HOROVOD_GLOO_RENDEZVOUS_PORT": store.get("port").decode(),
        }
    return {**horovod_environment(process.rank, hosts), **where}


def _torch_store(process: ProcessInfo) -> dist.Store:
    url = f"tcp://{process.address}:{process.port}"
    try:
        store, _, _ = next(rendezvous(url, process.rank, process.world_size, timeout=LIMIT))
    except (dist.DistError, OSError) as error:
        raise UserError(
            f"rank {process.rank} does not find rank 0 at {process.address}:{process.port} "
            f"({error}): set MASTER_ADDR to a name or an address that all nodes know"
        ) from None
    _kept.append(store)  # on rank 0 it serves the others
    return dist.PrefixStore("horovod", store)


def _serve(listener: socket.socket) -> None:
    store = Store([listener])
    while True:
        store.turn()
