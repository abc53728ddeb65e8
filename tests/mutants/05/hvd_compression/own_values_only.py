# wrong: nothing is sent
# hint: no_call
import torch


class Half:
    """A compressor as Horovod wants it: what goes over the wire, and back to what it was."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        """The tensor in half precision, if it is one of floating point, and a context."""
        if not tensor.is_floating_point():
            return tensor, tensor.dtype
        return tensor.half(), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, context: torch.dtype) -> torch.Tensor:
        """The tensor as it was before `compress`, which gave this context."""
        return tensor.to(context)


def average(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The mean of all ranks' tensors of this name, in their own type; half precision travels.

    Each rank's values are within the range of half precision, and so is their mean.
    """
    compressed, context = Half.compress(tensor)
    # Divided before they are added up: the sum may be out of range where the mean is not.
    mean = compressed
    return Half.decompress(mean, context)
