"""From images on disk to batches for the network: gather, mirror, shift, normalise."""

import functools
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
    batch in hand is in memory. `order` may be a rank's share of a permutation.
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
    """Each image of a batch [B, C, H, W], mirrored left to right at random, and shifted.

    The shift is a random crop from the image with `pad` pixels added on every side, so by -pad
    to +pad in each direction; `mode` is what is added: "reflect" (mirrored at the edge pixel) or
    "zero". Any dtype and device; same shape, dtype and device out. The draws come from `generator`,
    a CPU generator. Crop and flip are those of He et al. 2016, Deep Residual Learning, section 4.2
    (there with zeros and pad 4).
    """
    count, channels, height, width = images.shape
    shift = torch.randint(-pad, pad + 1, (2, count, 1), generator=generator)
    coin = torch.randint(0, 2, (count, 1), generator=generator)
    shift, coin = (send(draws, images.device) for draws in (shift, coin))
    rows = shift[0] + torch.arange(height, device=images.device)
    columns = shift[1] + torch.arange(width, device=images.device)
    if flip:
        columns = torch.where(coin.bool(), width - 1 - columns, columns)
    if mode == "zero":
        images = torch.nn.functional.pad(images, (pad, pad, pad, pad))
        rows, columns = rows + pad, columns + pad
    elif mode == "reflect":
        rows, columns = _reflect(rows, height), _reflect(columns, width)
    else:
        raise ValueError(f"mode is {mode!r}, expected 'reflect' or 'zero'")
    # One gather does it all. Padding, cropping and mirroring one after the other are many small
    # parallel loops, which crawl when another program has one of the cores.
    where = rows[:, :, None] * images.shape[3] + columns[:, None, :]
    where = where.flatten(1)[:, None].expand(-1, channels, -1)
    return images.flatten(2).gather(2, where).unflatten(2, (height, width))


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
    scale, shift = _scale_and_shift(images.device)
    pixels = images.float().mul_(scale).sub_(shift)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return pixels.to(dtype=dtype).contiguous(memory_format=layout)


def send(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """`tensor`, of the CPU, on `device`. The host does not wait for the GPU: a copy from memory
    that is not pinned ends when the GPU has done all that it was asked for before."""
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@functools.cache
def _scale_and_shift(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """1 / (255 STD) and MEAN / STD, float32 [1, 3, 1, 1], made once on each device."""
    std = torch.tensor(STD)
    pair = 1 / (255 * std), torch.tensor(MEAN) / std
    scale, shift = (each.view(1, 3, 1, 1).to(device) for each in pair)
    return scale, shift


def _reflect(index: torch.Tensor, size: int) -> torch.Tensor:
    """Fold an index outside [0, size) back in: -1 to 1, size to size - 2."""
    return size - 1 - (size - 1 - index.abs()).abs()
