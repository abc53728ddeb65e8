"""The training script's interface to a back end; the base class serves a single rank."""

from torch import Tensor, nn
from torch.optim import Optimizer


class Backend:
    """One rank alone. The others are built on it."""

    rank = 0
    world_size = 1

    def sum(self, tensor: Tensor) -> None:
        """Make `tensor`, in place, the sum of all ranks' tensors. A collective."""

    def maximum(self, tensor: Tensor) -> None:
        """Make `tensor`, in place, the largest of all ranks', by element. A collective."""

    def parallel(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """The network to call and the optimizer to step, for gradients averaged over all ranks.

        All ranks start from rank 0's weights and buffers.
        """
        return network, optimizer
