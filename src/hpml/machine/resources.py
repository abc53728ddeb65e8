"""The cores and the memory that this process may use."""

import os
import sys
from pathlib import Path

from hpml.machine import cgroup

GIB = 2**30


def usable_cores() -> float:
    """Cores that this process may use: fewer than the machine has under SLURM or in a container."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(allowed or 1, cgroup.cpu_limit() or float("inf"))


def usable_memory() -> int:
    """Bytes of memory that this process may use, the machine's or its control group's."""
    import psutil

    return min(psutil.virtual_memory().total, cgroup.memory_limit() or sys.maxsize)


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself (AVX512-BF16, AMX or Arm's BF16)."""
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
    return not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(flags)
