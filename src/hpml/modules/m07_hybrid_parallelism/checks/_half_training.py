"""Exercise fsdp's stage "half": a model whose weights travel and compute in bfloat16."""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hpml.checks.compare import state_of
from hpml.checks.seeds import derived
from hpml.modules.m07_hybrid_parallelism.checks._sharded_training import BATCH

HALF_STEPS, DEEP, WIDTH, CLASSES, VOCABULARY = 2, 4, 192, 10, 7
HALF_RATE = 0.002  # updates far smaller than what bfloat16 can add to a weight


class Residual(nn.Module):
    """float32 (N, 192) and int64 (N,) -> (N, 10). `computed(layer, x)` computes a layer, by default
    itself."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.hidden = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(DEEP))
        self.head = nn.Linear(WIDTH, CLASSES, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        words: torch.Tensor,
        computed: Callable[[nn.Module, torch.Tensor], torch.Tensor] = lambda layer, x: layer(x),
    ) -> torch.Tensor:
        x = x + computed(self.words, words)
        for layer in self.hidden:
            x = x + torch.tanh(computed(layer, x))
        return computed(self.head, x)


def in_bfloat16(layer: nn.Linear | nn.Embedding, x: torch.Tensor) -> torch.Tensor:
    weight = layer.weight.bfloat16()
    if isinstance(layer, nn.Embedding):
        return functional.embedding(x, weight).float()
    bias = None if layer.bias is None else layer.bias.bfloat16()
    return functional.linear(x.bfloat16(), weight, bias).float()


def half_inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank the same `state`, and the batches of each step: images, words, labels."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived(seed, "half"))
        state = state_of(Residual())
    draw = torch.Generator().manual_seed(derived(seed, "half batches"))

    def batch() -> list[torch.Tensor]:
        images = torch.randn(BATCH, WIDTH, generator=draw)
        words, labels = (
            torch.randint(0, n, (BATCH,), generator=draw) for n in (VOCABULARY, CLASSES)
        )
        return [images, words, labels]

    return [
        {"state": state, "batches": [batch() for _ in range(HALF_STEPS)]} for _ in range(world_size)
    ]


def train_half(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Two steps of SGD; returns the first step's `logits` and gradients, and `after`, by name."""
    net = Residual()
    net.load_state_dict(inputs["state"])
    names = [name for name, _ in net.named_parameters()]
    wrapped = answer.FullyShard(net, torch.bfloat16)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=HALF_RATE)
    first: dict[str, Any] = {}
    for images, words, labels in inputs["batches"]:
        optimizer.zero_grad()
        logits = wrapped(images, words=words)
        functional.cross_entropy(logits, labels).backward()
        wrapped.synchronize()
        if not first:
            gradients = [p.grad.clone() for p in wrapped.parameters() if p.grad is not None]
            first = {"logits": logits.detach(), "gradients": gradients}
        optimizer.step()
    return {**first, "after": {name: wrapped.gather(name) for name in names}}


def expect_half(ranks: Sequence[dict[str, Any]], world_size: int) -> dict[str, Any]:
    """`logits` of each rank in the first step, and the state `after` the last."""
    net = Residual()
    net.load_state_dict(ranks[0]["state"])
    optimizer = torch.optim.SGD(net.parameters(), lr=HALF_RATE)
    first = []
    for step in range(HALF_STEPS):
        optimizer.zero_grad()
        for rank in ranks:
            images, words, labels = rank["batches"][step]
            logits = net(images, words, in_bfloat16)
            (functional.cross_entropy(logits, labels) / world_size).backward()
            if not step:
                first.append(logits.detach())
        optimizer.step()
    return {"logits": first, "after": state_of(net)}
