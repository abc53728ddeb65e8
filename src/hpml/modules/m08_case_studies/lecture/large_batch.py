"""Accuracy over the batch, epochs fixed: the linear rule, with warm-up, LARS and LAMB.

A fully connected network learns CIFAR-10 in few epochs, so a large batch means few steps. A rule's
rate is tuned at the smallest batch and follows the batch from there: in proportion (Goyal et al.
2017, arXiv:1706.02677, section 2) or as its square root, as LAMB's does (You et al. 2020,
arXiv:1904.00962, section 4).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hpml.data import load, normalize
from hpml.machine.resources import usable_cores
from hpml.ranks import launch

BASE = 64
IMAGES, TEST_IMAGES = 8192, 2000
EPOCHS, WARM_UP = 6, 1
WIDTH, LAYERS, CLASSES = 128, 4, 10
SIDE = 8  # images are averaged to 8×8

Seeds = Sequence[float]  # the share of test images that are right, by seed
Curves = Mapping[str, Mapping[float, Seeds]]  # by rule, and by batch or rate


@dataclass(frozen=True)
class Rule:
    """An optimizer, and how its learning rate follows the batch.

    `rate` is the highest at a batch of BASE, where it was tuned; with k times the batch it is
    k^`power` times as high. With `warm_up` it begins at `rate` and is that high after one epoch.
    """

    optimizer: Callable[[Iterable[Any], float], torch.optim.Optimizer]
    rate: float
    power: float = 1.0
    warm_up: bool = True

    def highest(self, batch: int) -> float:
        """The highest learning rate with this batch."""
        return self.rate * (batch / BASE) ** self.power


sgd = partial(torch.optim.SGD, momentum=0.9)


@dataclass(frozen=True)
class Run:
    """One training. `rate` is the highest; None: the rule's for this batch."""

    rule: Rule
    batch: int
    seed: int
    rate: float | None = None


def by_batch(rules: Mapping[str, Rule], batches: Sequence[int], seeds: Sequence[int]) -> Curves:
    """Train by each rule with each batch and each seed."""
    return _curves(
        {name: {batch: (rule, batch, None) for batch in batches} for name, rule in rules.items()},
        seeds,
    )


def by_rate(
    rules: Mapping[str, Rule], batch: int, factors: Sequence[float], seeds: Sequence[int]
) -> Curves:
    """Train by each rule with one batch, and its rate times each of `factors`."""
    return _curves(
        {
            name: {factor: (rule, batch, factor * rule.highest(batch)) for factor in factors}
            for name, rule in rules.items()
        },
        seeds,
    )


def _curves(
    wanted: Mapping[str, Mapping[float, tuple[Rule, int, float | None]]], seeds: Sequence[int]
) -> Curves:
    runs = [
        Run(rule, batch, seed, rate)
        for points in wanted.values()
        for rule, batch, rate in points.values()
        for seed in seeds
    ]
    found = iter(accuracies(runs))
    return {
        name: {x: tuple(next(found) for _ in seeds) for x in points}
        for name, points in wanted.items()
    }


def learning_rate(epoch: float, low: float, high: float, warm_up: float, epochs: float) -> float:
    """In a line from `low` to `high` over the first `warm_up` epochs, then in one to 0 at the end.

    `epoch` counts from 0 and has a fraction.
    """
    if epoch < warm_up:
        return low + (high - low) * epoch / warm_up
    return high * (epochs - epoch) / (epochs - warm_up)


def network(inputs: int) -> nn.Sequential:
    """[B, inputs] to [B, 10]: four hidden layers, no biases, so that all parameters are layers."""
    sizes = [inputs, *[WIDTH] * LAYERS, CLASSES]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layer = nn.Linear(before, after, bias=False)
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(run: Run, images: Tensor, labels: Tensor, epochs: int = EPOCHS) -> nn.Module:
    """The network after so many epochs on `images` [N, inputs] and `labels`, int64 [N].

    Each epoch is a permutation cut into batches; images that do not fill one are left out.
    """
    rule = run.rule
    torch.manual_seed(run.seed)
    model = network(images.shape[1])
    high = rule.highest(run.batch) if run.rate is None else run.rate
    low, warm_up = (rule.rate, WARM_UP) if rule.warm_up else (high, 0)
    optimizer = rule.optimizer(model.parameters(), high)
    steps = len(images) // run.batch
    for epoch in range(epochs):
        order = torch.randperm(len(images))
        for step in range(steps):
            chosen = order[step * run.batch : (step + 1) * run.batch]
            rate = learning_rate(epoch + step / steps, min(low, high), high, warm_up, epochs)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            F.cross_entropy(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()
    return model


def small_images(split: str, count: int) -> tuple[Tensor, Tensor]:
    """The first images of "train" or "test", float32 [count, 192], and labels, int64 [count]."""
    chosen = slice(0, count)
    of = getattr(load(), split)
    pixels = normalize(torch.from_numpy(of.images[chosen]))
    return F.avg_pool2d(pixels, 32 // SIDE).flatten(1), torch.from_numpy(of.labels[chosen])


def accuracies(runs: Sequence[Run], timeout: float = 900.0) -> list[float]:
    """The share of test images that each run's network gets right, in the order of `runs`.

    Shared out among as many processes as there are cores, each with one thread: a run is the same
    on any of them. Raises RuntimeError where they do not end within `timeout` seconds.
    """
    # Small batches take longest: they are dealt out first, in turn
    dealt = sorted(range(len(runs)), key=lambda number: runs[number].batch)
    ranks = max(1, min(int(usable_cores()), len(runs), 16))
    shares = [dealt[rank::ranks] for rank in range(ranks)]
    inputs = [[runs[number] for number in share] for share in shares]
    evidence = launch(_on_a_rank, ranks, inputs=inputs, process_group=False, timeout=timeout)
    if evidence.diagnosis:
        raise RuntimeError(evidence.diagnosis.sentence)
    found = [0.0] * len(runs)
    for share, values in zip(shares, evidence.values, strict=True):
        for number, value in zip(share, values, strict=True):
            found[number] = value
    return found


def _on_a_rank(runs: Sequence[Run]) -> list[float]:
    images, labels = small_images("train", IMAGES)
    test_images, test_labels = small_images("test", TEST_IMAGES)
    found = []
    for run in runs:
        model = train(run, images, labels)
        with torch.inference_mode():
            right = model(test_images).argmax(1) == test_labels
        found.append(right.float().mean().item())
    return found
