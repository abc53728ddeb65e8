"""Freed memory that the process keeps for a while, and then returns."""

import platform
import resource
import sys

import pytest
import torch

from hpml.machine.freed_memory import freed_memory_kept

GLIBC = sys.platform.startswith("linux") and platform.libc_ver()[0] == "glibc"


def faults():
    """Page faults of making and freeing an array of 40 MiB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(10 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(not GLIBC, reason="only glibc has mallopt")
def test_what_was_freed_has_no_new_pages_while_it_is_kept():
    anew = faults()
    with freed_memory_kept():
        faults()  # the first takes its memory from the kernel
        assert faults() < 0.1 * anew
    assert faults() > 0.5 * anew
