"""From images on disk to batches for the network: gather, flip, shift and normalise a whole batch."""

from collections.abc import Iterator

import numpy as np
import torch

from hpml.data.cifar10 import Split

# Mean and standard deviation of each channel over the 50,000 training images, pixels in [0, 1].
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)


def batches(
    split: Split,
    order: np.ndarray | torch.Tensor | list[int],
    batch_size: int,
    *,
    drop_last: bool = False,
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The images at the indices `order`, in that order, `batch_size` at a time.

    Yields images uint8 [B, 3, 32, 32] and labels int64 [B]; the last batch is smaller when
    `batch_size` does not divide the number of indices, or left out with `drop_last`. Only the
    batch in hand is in memory. `order` is a rank's share of a permutation, say.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}, expected at least 1")
    order = np.asarray(order)
    stop = len(order) - len(order) % batch_size if drop_last else len(order)
    for start in range(0, stop, batch_size):
        index = order[start : min(start + batch_size, stop)]
        yield torch.from_numpy(split.images[index]), torch.from_numpy(split.labels[index])


def augment(
    images: torch.Tensor,
    generator: torch.Generator | None = None,
    *,
    pad: int = 2,
    mode: str = "reflect",
    flip: bool = True,
) -> torch.Tensor:
    """Each image of a batch [B, C, H, W] mirrored left to right by a coin, and shifted.

    The shift is a crop at random from the image with `pad` pixels added on every side, so by -pad
    to +pad in each direction; `mode` says what is added: "reflect" (mirrored at the edge pixel) or
    "zero". Any dtype and device; same shape, dtype and device out. The draws come from `generator`,
    a CPU generator. Crop and flip are those of He et al. 2016, Deep Residual Learning, section 4.2
    (there with zeros and pad 4).
    """
    count, _, height, width = images.shape
    draws = torch.randint(0, 2 * pad + 1, (2, count), generator=generator)
    coin = torch.randint(0, 2, (count, 1, 1, 1), generator=generator).bool()
    top, left = draws.to(images.device)
    if pad:
        padded = _pad(images, pad, mode)
        # A view with every crop there is: [B, C, 2·pad + 1, 2·pad + 1, H, W].
        crops = padded.unfold(2, height, 1).unfold(3, width, 1)
        images = crops[torch.arange(count, device=images.device), :, top, left]
    if flip:
        images = torch.where(coin.to(images.device), images.flip(3), images)
    return images


def normalize(
    images: torch.Tensor,
    *,
    dtype: torch.dtype = torch.float32,
    channels_last: bool = False,
) -> torch.Tensor:
    """uint8 [B, 3, H, W] to `dtype` with mean 0 and standard deviation 1 in each channel.

    (x / 255 - MEAN) / STD, computed in float32 whatever `dtype` is; with `channels_last` the
    result is laid out NHWC in memory, its shape unchanged.
    """
    scale = 1 / (255 * torch.tensor(STD, device=images.device))
    shift = torch.tensor(MEAN, device=images.device) / torch.tensor(STD, device=images.device)
    pixels = images.float().mul_(scale.view(1, 3, 1, 1)).sub_(shift.view(1, 3, 1, 1))
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return pixels.to(dtype=dtype).contiguous(memory_format=layout)


def _pad(images: torch.Tensor, pad: int, mode: str) -> torch.Tensor:
    if mode == "zero":
        return torch.nn.functional.pad(images, (pad, pad, pad, pad))
    if mode != "reflect":
        raise ValueError(f"mode is {mode!r}, expected 'reflect' or 'zero'")
    # By index, because reflection padding is not written for uint8 on every device.
    for axis in (2, 3):
        size = images.shape[axis]
        index = torch.arange(-pad, size + pad, device=images.device).abs()
        index = torch.where(index < size, index, 2 * (size - 1) - index)
        images = images.index_select(axis, index)
    return images
