"""The whitening filters: they whiten, and are the same bits whatever computes them."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from hpml.models.whitening import eigh, patch_covariance, whitening_filters

# Pixels that neighbours share in part, made without rounding: torch.randn differs by processor.
# Then two colours that are the same and one that is black: eigenvalues are equal, and zero.
DIGESTS = """
import hashlib, torch
from hpml.models import whitening_filters
draw = torch.Generator().manual_seed(1)
coarse = torch.randint(0, 99, (600, 3, 8, 8), generator=draw)
fine = torch.randint(0, 99, (600, 3, 32, 32), generator=draw)
images = (coarse.repeat_interleave(4, 2).repeat_interleave(4, 3) + fine) / 64 - 1.5
for grey in (False, True):
    if grey:
        images[:, 1], images[:, 2] = images[:, 0], 0
    for threads in (1, 2, 4):
        torch.set_num_threads(threads)
        print(grey, hashlib.sha256(whitening_filters(images).numpy().tobytes()).hexdigest())
"""


def correlated_images(count: int = 200, size: int = 16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return F.avg_pool2d(torch.randn(count, 3, size + 2, size + 2, generator=generator), 3, 1)


def test_whitened_patches_are_uncorrelated_and_of_variance_one():
    images = correlated_images() * 10
    filters = whitening_filters(images)
    outputs = F.conv2d(images, filters, stride=2).transpose(0, 1).flatten(1)
    covariance = outputs @ outputs.T / outputs.shape[1]
    torch.testing.assert_close(covariance, torch.eye(12), atol=0.02, rtol=0)


def digests(**environment: str) -> list[str]:
    command = [sys.executable, "-c", DIGESTS]
    # Threads that wait do not spin: they may be more than there are cores.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"} | environment
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_threads_and_processor_do_not_change_a_bit():
    """Also where equal eigenvalues leave the directions open."""
    here = digests()
    assert len(here) == 6
    assert len(set(here)) == 2, here
    older = {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "MKL_CBWR": "COMPATIBLE"}
    older |= {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    assert digests(**older) == here


def test_the_covariance_is_exact():
    images = torch.tensor([[[[0.5, -1.0], [2.0, 0.25]]]]).repeat(1001, 1, 1, 1)
    patch = images[0].flatten().double()
    assert torch.equal(patch_covariance(images), torch.outer(patch, patch))


@pytest.mark.parametrize(
    "matrix",
    [
        np.cov(np.random.default_rng(0).normal(size=(12, 40))),
        np.ones((12, 12)),
        np.eye(12),
        np.zeros((3, 3)),
        np.kron(np.ones((3, 3)), np.diag([1.0, 2.0, 2.0, 1e-9])),
    ],
    ids=["general", "rank one", "identity", "zero", "pairs"],
)
def test_eigenvectors_are_orthogonal_and_give_the_matrix_back_largest_first(matrix):
    values, vectors = eigh(matrix)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, matrix, atol=1e-13)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(matrix)), atol=1e-13)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1], atol=1e-13)
    assert (np.diff(values) <= 0).all()
