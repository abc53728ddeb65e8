"""A small training that is the same in one process and on ranks: for ideas tried out in a cell.

A network learns what another one with fixed weights makes of random inputs. All of it is float64
and drawn from seeds, so that ways to communicate can be compared to the last digits.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from hpml.measure.loaders import one_thread

INPUTS, HIDDEN, OUTPUTS = 32, 64, 8
BATCH = 16  # samples of one rank in one step
RATE, MOMENTUM = 0.1, 0.9


def network(seed: int = 0) -> nn.Sequential:
    """Two layers, float64: (N, 32) -> (N, 8); 2632 parameters, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(INPUTS, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, OUTPUTS)
        ).double()


def batch(rank: int, step: int) -> tuple[Tensor, Tensor]:
    """The rank's samples of this step, float64 (16, 32), and what they should become, (16, 8)."""
    draw = torch.Generator().manual_seed(1000 * step + rank)
    # Features of different sizes, so that gradients have different sizes
    inputs = torch.randn(BATCH, INPUTS, generator=draw, dtype=torch.float64)
    inputs = inputs * torch.logspace(0, -1, INPUTS, dtype=torch.float64)
    with torch.no_grad():
        return inputs, 3 * network(seed=1)(inputs)


def train(
    model: nn.Module,
    rank: int,
    steps: int,
    *,
    first: int = 0,
    optimizer: Any = None,
) -> None:
    """An ordinary training loop, of one process, on the batches of one rank from step `first` on.

    `optimizer` has `zero_grad` and `step`; None: SGD with momentum.
    """
    optimizer = optimizer or sgd(model)
    for step in range(first, first + steps):
        optimizer.zero_grad()
        inputs, targets = batch(rank, step)
        mse_loss(model(inputs), targets).backward()
        optimizer.step()


def sgd(model: nn.Module) -> torch.optim.SGD:
    """SGD with momentum."""
    return torch.optim.SGD(model.parameters(), RATE, MOMENTUM)


@one_thread()
def in_one_process(ranks: int, steps: int) -> Tensor:
    """The weights, float64 (2632,), of one process that takes all ranks' batches at once."""
    model = network()
    optimizer = sgd(model)
    for step in range(steps):
        optimizer.zero_grad()
        parts = [batch(rank, step) for rank in range(ranks)]
        inputs, targets = (torch.cat(each) for each in zip(*parts, strict=True))
        mse_loss(model(inputs), targets).backward()
        optimizer.step()
    return weights(model)


def weights(model: nn.Module) -> Tensor:
    """All parameters in one vector, a copy."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).clone()


@one_thread()
def loss_of(vector: Tensor, step: int = 10**6) -> float:
    """The loss of these weights on samples that no rank trains on."""
    model = network()
    nn.utils.vector_to_parameters(vector, model.parameters())
    with torch.no_grad():
        pairs = [batch(rank, step) for rank in range(64)]
        return sum(mse_loss(model(x), y).item() for x, y in pairs) / len(pairs)
