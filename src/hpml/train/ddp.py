"""torch.distributed as a back end: every rank has a whole copy of the network."""

from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from hpml.train.backend import Backend


class Ddp(Backend):
    """torch.distributed's default group, and DistributedDataParallel.

    `bucket_mib` is how many MiB of gradients travel together; None leaves it to DDP.
    """

    def __init__(self, bucket_mib: float | None = None) -> None:
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.bucket_mib = bucket_mib

    def sum(self, tensor: Tensor) -> None:
        dist.all_reduce(tensor)

    def maximum(self, tensor: Tensor) -> None:
        dist.all_reduce(tensor, dist.ReduceOp.MAX)

    def parallel(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        if self.world_size == 1:
            return network, optimizer
        wrapped = DistributedDataParallel(
            network,
            # Each rank keeps statistics of its own batches; they are averaged where they are
            # used. To broadcast rank 0's in every step would cost more and throw the rest away.
            forward_sync_buffers=False,
            gradient_as_bucket_view=True,
            bucket_cap_mb=self.bucket_mib,
        )
        return wrapped, optimizer
