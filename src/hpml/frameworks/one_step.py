"""The training step that each framework takes: the same weights, the same batch, the same rule.

Each way is a function that gets a `Given` and returns a `Running`. Its network is
`hpml.models.residual`; weights go from one framework to another as arrays, by PyTorch's names and
in PyTorch's layouts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hpml.models import ResidualNetwork

LEARNING_RATE = 0.02
MOMENTUM = 0.9
WIDTHS = (64, 256, 256)


@dataclass(frozen=True)
class Given:
    """`weights`: parameters and buffers by name. `images`: float32 [B, 3, 32, 32]. `labels`: int64
    [B]. `learned`: the names of the parameters that the step updates."""

    weights: Mapping[str, np.ndarray]
    images: np.ndarray
    labels: np.ndarray
    learned: Sequence[str]

    @property
    def stages(self) -> int:
        """Stages of the network."""
        return sum(name.endswith("down.convolution.weight") for name in self.weights)

    @property
    def changed(self) -> list[str]:
        """What a step changes: what is learned, and the statistics of batch normalisations."""
        ends = ("running_mean", "running_var")
        return [*self.learned, *(name for name in self.weights if name.endswith(ends))]

    def write(self, path: Path) -> None:
        arrays = {f"weight {name}": value for name, value in self.weights.items()}
        learned = np.array(self.learned)
        np.savez(path, images=self.images, labels=self.labels, learned=learned, **arrays)


@dataclass(frozen=True)
class Running:
    """A network in some framework, ready to run on its batch.

    `step` takes one training step and returns the loss before it, `forward` returns the logits
    [B, classes] as for prediction, `weights` all that a step changes. A way that cannot train has
    no `step`.
    """

    forward: Callable[[], np.ndarray]
    step: Callable[[], float] | None = None
    weights: Callable[[], dict[str, np.ndarray]] = dict


def read(path: Path) -> Given:
    """What `Given.write` wrote."""
    with np.load(path) as file:
        weights = {
            name.removeprefix("weight "): file[name] for name in file if name.startswith("weight ")
        }
        return Given(weights, file["images"], file["labels"], file["learned"].tolist())


def made(batch: int, widths: Sequence[int] = WIDTHS, seed: int = 0) -> Given:
    """Random images and labels, and a fresh network that has seen them once.

    So the statistics of its batch normalisations are not 0 and 1.
    """
    import torch

    from hpml.models import ResidualNetwork

    torch.manual_seed(seed)
    network = ResidualNetwork(widths=widths)
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    with torch.no_grad():
        network(images)
    weights = {name: value.numpy().copy() for name, value in network.state_dict().items()}
    learned = [name for name, value in network.named_parameters() if value.requires_grad]
    return Given(weights, images.numpy(), labels.numpy(), learned)


def torch_network(given: Given) -> "ResidualNetwork":
    """The network in PyTorch, with these weights."""
    import torch

    from hpml.models import ResidualNetwork

    widths = [
        len(given.weights[f"stages.{stage}.down.convolution.weight"])
        for stage in range(given.stages)
    ]
    network = ResidualNetwork(widths=widths)
    network.load_state_dict({n: torch.from_numpy(v.copy()) for n, v in given.weights.items()})
    return network
