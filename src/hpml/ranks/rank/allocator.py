"""Where a rank's memory is counted: freed blocks go back to the kernel, and nothing comes late.

glibc keeps freed blocks for the next one, up to 32 MiB at once: its threshold grows with what a
program frees, unless it is set (M_MMAP_THRESHOLD in mallopt(3)).
"""

import ctypes
import sys

import torch
from torch import nn

BLOCK = 2**16  # bytes: blocks from this size on are the kernel's as soon as they are freed

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -2, -3, -4  # malloc.h
_THP_DISABLE = 41  # PR_SET_THP_DISABLE of prctl(2): a huge page is 2 MiB, however little is used


def give_back() -> None:
    """From now on this process's freed blocks of BLOCK bytes or more are the kernel's. Linux with
    glibc; elsewhere nothing changes."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):  # musl gives back by itself
        return
    libc.prctl(_THP_DISABLE, 1, 0, 0, 0)
    settings = {_MMAP_THRESHOLD: BLOCK, _TRIM_THRESHOLD: BLOCK, _TOP_PAD: 0, _MMAP_MAX: 2**20}
    for which, value in settings.items():
        libc.mallopt(which, value)
    _train_once()
    libc.malloc_trim(0)


def _train_once() -> None:
    """Have PyTorch set up what a training step sets up once, and touch its code."""
    before = torch.get_rng_state()
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.GELU(),
        nn.Flatten(2),
        nn.Linear(64, 64),
        nn.LayerNorm(64),
        nn.Linear(64, 64),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = model(torch.randn(8, 3, 8, 8))
    mixed = nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)
    nn.functional.cross_entropy(mixed.mean(1), torch.zeros(8, dtype=torch.long)).backward()
    optimizer.step()
    torch.set_rng_state(before)
