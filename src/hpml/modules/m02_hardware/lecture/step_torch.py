"""PyTorch: training steps of the course's network on random images, in a process of its own.

Its settings are environment variables, which libraries read once, when they are loaded.
"""

import os
import time

import torch
from torch.nn.functional import cross_entropy

from hpml.frameworks import task
from hpml.models import ResidualNetwork

STEPS = int(os.environ.get("HPML_STEPS", 8))
IMAGES = int(os.environ.get("HPML_BATCH", 32))
BFLOAT16 = os.environ.get("HPML_DTYPE") == "bfloat16"


def quickest_step() -> float:
    torch.manual_seed(0)
    model = ResidualNetwork().to(memory_format=torch.channels_last)
    images = torch.randn(IMAGES, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (IMAGES,))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
    best = float("inf")
    for _ in range(STEPS):
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=BFLOAT16):
            logits = model(images)
        cross_entropy(logits.float(), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
        best = min(best, time.perf_counter() - started)
    return best


def quickest_product(size: int = 1024) -> float:
    """float64, which MKL multiplies."""
    left, right, out = (torch.rand(size, size, dtype=torch.float64) for _ in range(3))
    best = float("inf")
    for _ in range(STEPS):
        started = time.perf_counter()
        torch.mm(left, right, out=out)
        best = min(best, time.perf_counter() - started)
    return best


def openmp() -> list[str]:
    """The OpenMP libraries that this process has loaded."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[-1].strip() for line in maps}
    except OSError:
        return []
    names = ("libgomp", "libiomp5", "libomp")
    return sorted(path for path in paths if os.path.basename(path).startswith(names))


task.tell(
    {
        "step": quickest_step(),
        "product": quickest_product() if "HPML_PRODUCT" in os.environ else 0.0,
        "threads": torch.get_num_threads(),
        "openmp": openmp(),
    }
)
