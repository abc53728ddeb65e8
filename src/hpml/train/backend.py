"""What the training script asks of a back end. A rank alone is its own."""

from torch import Tensor, nn
from torch.optim import Optimizer


class Backend:
    """One rank alone. The others are built on it."""

    rank = 0
    world_size = 1

    def sum(self, tensor: Tensor) -> None:
        """Make `tensor`, in place, the sum of all ranks' tensors. A collective, so all call it."""

    def maximum(self, tensor: Tensor) -> None:
        """Make `tensor`, in place, the largest of all ranks', by element. A collective."""

    def parallel(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """What to call and what to step so that all ranks learn from all ranks' gradients.

        All ranks start from rank 0's weights and buffers.
        """
        return network, optimizer
