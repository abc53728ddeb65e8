"""Jordan's airbench94 on a processor: the baseline of the training script.

The recipe of Keller Jordan, 94 % on CIFAR-10 in 3.29 seconds on a single GPU, 2024
(arXiv:2404.00498; https://github.com/KellerJordan/cifar10-airbench, airbench94.py), written anew
from the paper, with its figures: network, optimizer, schedule, look-ahead, augmentation, and
test-time augmentation. Adapted to processors: the layout (channels last), the precision (bfloat16
by autocast, where the hardware has it), and that images are shifted as they are needed.
"""

import math
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hpml.data import Data, augment, normalize
from hpml.models import whitening_filters
from hpml.train import hardware

EPOCHS = 9.9
BATCH = 1024
LR = 11.5  # per 1024 images, of the sum of their losses, as it is without momentum
MOMENTUM = 0.85
DECAY = 0.0153  # of the weights, per 1024 images
BIAS_FACTOR = 64
SMOOTHING = 0.2
WHITEN_BIAS_EPOCHS = 3
WIDTHS = (64, 256, 256)
LOOKAHEAD_EVERY = 5  # steps
START, PEAK, END = 0.2, 0.23, 0.07  # learning rate: first share, when it is highest, last share
TEST_BATCH = 500


class Convolution(nn.Conv2d):
    """3×3, without bias; the first outputs start as copies of the inputs."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, 3, padding="same", bias=False)
        nn.init.dirac_(self.weight.data[:inputs])


class BatchNorm(nn.BatchNorm2d):
    """Its scale stays 1."""

    def __init__(self, channels: int):
        super().__init__(channels, eps=1e-12, momentum=0.4)
        self.weight.requires_grad_(False)


def make_network(images: Tensor) -> nn.Sequential:
    """The network; `images` are the first normalised training images, which give its filters."""
    filters = whitening_filters(images)
    whiten = nn.Conv2d(3, 2 * len(filters), 2)
    whiten.weight.data.copy_(torch.cat([filters, -filters]))
    whiten.weight.requires_grad_(False)
    nn.init.zeros_(whiten.bias)
    layers: list[nn.Module] = [whiten, nn.GELU()]
    for inputs, width in zip((2 * len(filters), *WIDTHS), WIDTHS, strict=False):
        layers += [Convolution(inputs, width), nn.MaxPool2d(2), BatchNorm(width), nn.GELU()]
        layers += [Convolution(width, width), BatchNorm(width), nn.GELU()]
    layers += [nn.MaxPool2d(3), nn.Flatten(), nn.Linear(WIDTHS[-1], 10, bias=False)]
    return nn.Sequential(*layers)


def share_of_lr(step: int, steps: int) -> float:
    """Share of the highest learning rate at `step` of `steps`."""
    peak = int(PEAK * steps)
    if step < peak:
        return START + (1 - START) * step / peak
    return 1 - (1 - END) * (step - peak) / (steps - peak)


class Airbench:
    """A run on one rank; `train_epoch` until `progress` is 1."""

    def __init__(self, data: Data, seed: int, epochs: float = EPOCHS, precision: str = "auto"):
        self.data = data
        self.precision = hardware.pick_precision(precision, torch.device("cpu"))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            first = normalize(torch.from_numpy(data.train.images[:5000]))
            self.network = make_network(first).to(memory_format=torch.channels_last)
            self.first_mirrored = torch.randint(0, 2, (len(data.train),))
        self.generator = torch.Generator().manual_seed(seed)
        per_step = BATCH * (1 + 1 / (1 - MOMENTUM))
        lr, decay = LR / per_step, DECAY * BATCH / per_step
        norms = [module for module in self.network if isinstance(module, BatchNorm)]
        biases = [norm.bias for norm in norms]
        fixed = {id(parameter) for norm in norms for parameter in norm.parameters()}
        others = [p for p in self.network.parameters() if id(p) not in fixed]
        self.optimizer = torch.optim.SGD(
            [
                _group([p for p in others if p is not self.network[0].weight], lr, decay),
                _group(biases, lr * BIAS_FACTOR, decay),
            ],
            lr=lr,
            momentum=MOMENTUM,
            nesterov=True,
            fused=True,
        )
        self.slow = {name: value.clone() for name, value in self.floating().items()}
        # The last batch of an epoch is left out where it is not full.
        self.steps = math.ceil(len(data.train) // BATCH * epochs)
        self.step = self.epoch = 0
        self.seconds = 0.0

    @property
    def progress(self) -> float:
        return self.step / self.steps

    def floating(self) -> dict[str, Tensor]:
        state = self.network.state_dict()
        return {name: value for name, value in state.items() if value.is_floating_point()}

    def train_epoch(self) -> None:
        """Train one epoch, or what is left of the last; add its seconds to `seconds`."""
        started = time.perf_counter()
        self.network.train()
        self.network[0].bias.requires_grad_(self.epoch < WHITEN_BIAS_EPOCHS)
        order = torch.randperm(len(self.data.train), generator=self.generator)
        for index in order.split(BATCH):
            if len(index) == BATCH and self.step < self.steps:
                self.train_step(index)
        self.epoch += 1
        self.seconds += time.perf_counter() - started

    def train_step(self, index: Tensor) -> None:
        images = torch.from_numpy(self.data.train.images[index.numpy()])
        labels = torch.from_numpy(self.data.train.labels[index.numpy()])
        mirrored = (self.first_mirrored[index] + self.epoch) % 2 == 1
        images = torch.where(mirrored.view(-1, 1, 1, 1), images.flip(3), images)
        images = augment(images, self.generator, pad=2, flip=False)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * share_of_lr(self.step, self.steps)
            group["weight_decay"] = group["decay"] / group["peak"]
        logits = self.logits(normalize(images, channels_last=True))
        losses = F.cross_entropy(logits, labels, reduction="none", label_smoothing=SMOOTHING)
        self.optimizer.zero_grad()
        losses.sum().backward()
        self.optimizer.step()
        self.step += 1
        if self.step == self.steps:
            self.look_ahead(1.0)
        elif self.step % LOOKAHEAD_EVERY == 0:
            self.look_ahead(0.95**LOOKAHEAD_EVERY * self.progress**3)

    def look_ahead(self, keep: float) -> None:
        with torch.no_grad():
            for name, fast in self.floating().items():
                self.slow[name].lerp_(fast, 1 - keep)
                fast.copy_(self.slow[name])

    def logits(self, pixels: Tensor) -> Tensor:
        """Float32 [B, 10] of normalised images."""
        mixed = self.precision != torch.float32
        with torch.autocast("cpu", self.precision, enabled=mixed):
            return self.network(pixels).float() / 9


def _group(parameters: list[Tensor], lr: float, decay: float) -> dict[str, object]:
    return {"params": parameters, "peak": lr, "decay": decay}


def accuracies(network: nn.Module, logits: Callable[[Tensor], Tensor], data: Data) -> list[float]:
    """Accuracies on all test images, in [0, 1]: plain, and with test-time augmentation.

    `logits` are `network`'s, of normalised images. With augmentation: half the mean over the image
    and its mirror image, half that over both shifted by one pixel, up left and down right.
    """
    network.eval()
    right = [0, 0]
    with torch.inference_mode():
        for start in range(0, len(data.test), TEST_BATCH):
            images, labels = (
                torch.from_numpy(array[start : start + TEST_BATCH])
                for array in (data.test.images, data.test.labels)
            )
            pixels = normalize(images, channels_last=True)
            wider = F.pad(pixels, (1, 1, 1, 1), "reflect")
            plain = logits(pixels)
            whole = plain + logits(pixels.flip(3))
            shifted = sum(
                logits(part) + logits(part.flip(3))
                for part in (wider[:, :, :-2, :-2], wider[:, :, 2:, 2:])
            )
            for number, guess in enumerate((plain, whole / 4 + shifted / 8)):
                right[number] += int((guess.argmax(1) == labels).sum())
    return [count / len(data.test) for count in right]
