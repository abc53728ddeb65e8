"""What a run writes for TensorBoard: scalars, images, histograms, and its hyperparameters.

One rank writes, into one folder. The step of every curve is the number of images that all ranks
together have seen: curves of different numbers of ranks then overlap.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from hpml.data.batches import MEAN, STD
from hpml.trace.event_files import leave_tensorflow_out
from hpml.train import draw
from hpml.train.config import TrainConfig
from hpml.train.history import Epoch
from hpml.train.observer import Observer
from hpml.train.state import local

SHOWN = 16  # images of a batch, and of the test
ENLARGED = 3  # screen pixels for a pixel of an image
BINS = 64
METRICS = ("accuracy/test", "loss/test")
# Where files are, and how a run is shown: no hyperparameter of it.
NOT_HYPERPARAMETERS = ("data", "checkpoint", "resume", "out", "tensorboard", "profile", "progress")


class Events(Observer):
    """Events of a run of `network` with `config`, in folder `config.tensorboard`.

    After each epoch: losses, accuracies, learning rate and speed; a histogram of each parameter and
    of its gradient in the last step, of a split network the part on this rank. In each epoch's
    first step: the images as the network sees them. At the end: `classes` predicted for the first
    test images, where this rank has the logits. `seen` images were seen before; what an earlier
    run wrote beyond them is left out of the curves.
    """

    def __init__(self, config: TrainConfig, network: nn.Module, classes: Sequence[str], seen: int):
        leave_tensorflow_out()
        # Most of a second to import, so only where it is wanted.
        from torch.utils.tensorboard import SummaryWriter
        from torch.utils.tensorboard.summary import hparams

        self.network, self.classes, self.seen = network, classes, seen
        self.writer = SummaryWriter(config.tensorboard, purge_step=seen)
        self.batch_is_due = True
        self.last_test: tuple[Tensor, Tensor, Tensor] | None = None
        experiment, started, self.ended = hparams(
            hyperparameters(config), dict.fromkeys(METRICS, 0.0)
        )
        for summary in (experiment, started):
            self._add(summary)

    def _add(self, summary: Any) -> None:
        writer: Any = self.writer.file_writer  # there until it is closed
        writer.add_summary(summary)

    def batch(self, pixels: Tensor) -> None:
        if self.batch_is_due:
            self.writer.add_images("as the network sees it", visible(pixels[:SHOWN]), self.seen)
            self.batch_is_due = False

    def step(self, images: int) -> None:
        self.seen += images

    def tested(self, images: Tensor, labels: Tensor, logits: Tensor) -> None:
        if self.last_test is None:
            self.last_test = images[:SHOWN].cpu(), labels[:SHOWN].cpu(), logits[:SHOWN].cpu()

    def epoch(self, epoch: Epoch) -> None:
        for name, value in (
            ("loss/train", epoch.train_loss),
            ("loss/test", epoch.test_loss),
            ("accuracy/train", epoch.train_accuracy),
            ("accuracy/test", epoch.test_accuracy),
            ("learning rate", epoch.lr),
            ("images per second", epoch.images_per_second),
        ):
            self.writer.add_scalar(name, value, self.seen)
        for name, parameter in self.network.named_parameters():
            self._histogram(f"parameters/{name}", parameter)
            self._histogram(f"gradients/{name}", parameter.grad)
        if self.last_test is not None:
            figure = draw.predictions(*self.last_test, self.classes)
            self.writer.add_figure("predictions", figure, self.seen)
        self.batch_is_due, self.last_test = True, None

    def _histogram(self, name: str, tensor: Tensor | None) -> None:
        if tensor is None:
            return
        values = local(tensor.detach()).float().flatten().cpu()
        values = values[values.isfinite()]  # a run that diverges goes on to the end
        if len(values):
            # As many bins as are drawn: TensorBoard's own 1,500 take ten times as long.
            self.writer.add_histogram(name, values.numpy(), self.seen, bins=BINS)

    def close(self) -> None:
        self._add(self.ended)
        self.writer.close()


def hyperparameters(config: TrainConfig) -> dict[str, bool | int | float | str]:
    """What distinguishes one run from another, by option; options that a model lacks left out."""
    found = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if value is not None and name not in NOT_HYPERPARAMETERS
    }
    for name, value in found.items():
        if isinstance(value, tuple):
            found[name] = ",".join(map(str, value))
    return found


def visible(pixels: Tensor) -> Tensor:
    """Normalised images [B, 3, S, S] as uint8 again, enlarged."""
    mean, std = (torch.tensor(each, device=pixels.device).view(1, 3, 1, 1) for each in (MEAN, STD))
    plain = ((pixels.detach().float() * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
    return plain.repeat_interleave(ENLARGED, 2).repeat_interleave(ENLARGED, 3).cpu()
