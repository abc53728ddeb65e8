"""Filters that whiten image patches, bit for bit the same on every machine.

All ranks must start from the same weights, and a seed must mean the same run everywhere. Matrix
products and eigenvectors of a library depend on the number of threads and on the processor, and
equal eigenvalues leave the directions open. So sums are exact here, and the rest is a fixed order
of elementwise float64 operations, which IEEE 754 defines to the last bit.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

PATCH = 2
SMALLEST = 5e-4  # added to each eigenvalue: what is smaller is noise
GRID = 2.0**12  # pixels are rounded to 1 / GRID
AT_A_TIME = 500  # images, to need little memory


def whitening_filters(images: Tensor, patch: int = PATCH) -> Tensor:
    """Filters [3·patch², 3, patch, patch] whose outputs on `images` are uncorrelated, variance 1.

    Rows of (Λ + 5e-4)^(-1/2) Vᵀ, with V Λ Vᵀ the covariance of the patches of `images`
    [N, 3, H, W] (normalised, float32); the strongest direction first (Page 2018; Jordan 2024,
    arXiv:2404.00498, section 3.2). The same on any processor, with any number of threads.
    """
    eigenvalues, vectors = eigh(patch_covariance(images, patch).numpy())
    filters = (vectors / np.sqrt(eigenvalues + SMALLEST)).T
    return torch.from_numpy(filters).float().reshape(-1, images.shape[1], patch, patch)


def patch_covariance(images: Tensor, patch: int = PATCH) -> Tensor:
    """Mean of x xᵀ over the patches x of `images`, which do not overlap; float64, symmetric.

    Exact for pixels rounded to 1/4096: float64 adds whole numbers below 2^53 without an error, in
    whatever order the threads do (a million patches of pixels up to 20, say).
    """
    total = torch.zeros((), dtype=torch.float64)
    count = 0
    for part in images.split(AT_A_TIME):
        patches = F.unfold(part, patch, stride=patch).transpose(1, 2).flatten(0, 1)
        whole = patches.double().mul_(GRID).round_()
        total = total + whole.T @ whole
        count += len(whole)
    return total / (count * GRID**2)


def eigh(matrix: np.ndarray, sweeps: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, largest first, and eigenvectors in columns, of a symmetric float64 matrix.

    Jacobi's method: turn two axes at a time so that what couples them becomes 0 (Golub and Van
    Loan, Matrix Computations, section 8.5). For a dozen rows it takes milliseconds.
    """
    a, vectors = matrix.copy(), np.eye(len(matrix))
    negligible = np.finfo(np.float64).eps * np.abs(matrix).max() / len(matrix)
    for _ in range(sweeps):
        pairs = [(p, q) for q in range(len(a)) for p in range(q) if abs(a[p, q]) > negligible]
        if not pairs:
            break
        for p, q in pairs:
            if a[p, q] == 0:
                continue
            ratio = float(a[q, q] - a[p, p]) / float(2 * a[p, q])
            tangent = math.copysign(1 / (abs(ratio) + math.sqrt(ratio * ratio + 1)), ratio)
            cosine = 1 / math.sqrt(tangent * tangent + 1)
            sine = tangent * cosine
            for rows in (a, a.T, vectors.T):
                rows[p], rows[q] = (
                    cosine * rows[p] - sine * rows[q],
                    sine * rows[p] + cosine * rows[q],
                )
    order = np.argsort(-np.diagonal(a), kind="stable")
    return np.diagonal(a)[order], vectors[:, order]
