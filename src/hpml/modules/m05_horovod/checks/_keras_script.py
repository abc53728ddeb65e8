"""Exercise hvd_keras's data, drive and expected values: a training script run by ranks.

The script is given rows of random numbers that stand for the samples. A step of the model asks for
the samples themselves, so that those it trains on are known outside the rank.

Expected values are computed in PyTorch, in double precision: TensorFlow is imported only where the
answer runs.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional

from hpml.checks.kits.served_samples import serving
from hpml.checks.seeds import derived
from hpml.ranks import Server, ask

LENGTH, BATCH, EPOCHS, WARMUP = 24, 2, 2, 1  # BATCH is one rank's
# The first features say something of a sample's class. There are many others, so that a gradient,
# of 240 kB, is more than all samples that a rank takes.
FEATURES, TELLING, HIDDEN, CLASSES = 3000, 12, 10, 5
LEARNING_RATE = 0.05
UNKNOWN = LENGTH  # the number of a row that is none of those that were given

Weights = Sequence[torch.Tensor]


def new_weights(seed: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    shapes = ((FEATURES, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,))
    return [0.3 * torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]


def inputs(seed: int, world_size: int) -> list[dict[str, Any]]:
    """For each rank: the same samples of noisy classes, and its own weights."""
    draw = torch.Generator().manual_seed(seed)
    centres = torch.randn(CLASSES, TELLING, generator=draw, dtype=torch.float64)
    y = torch.randint(0, CLASSES, (LENGTH,), generator=draw)
    x = 0.01 * torch.randn(LENGTH, FEATURES, generator=draw, dtype=torch.float64)
    x[:, :TELLING] = centres[y] + 100 * x[:, :TELLING]
    x = x.float().double()  # Keras rounds its inputs
    own = [new_weights(derived(seed, f"weights {rank}")) for rank in range(world_size)]
    return [
        {"x": x.numpy(), "y": y.numpy(), "weights": [w.numpy() for w in weights]} for weights in own
    ]


def serve(ranks: Sequence[dict[str, Any]]) -> tuple[Sequence[dict[str, Any]], Server]:
    """The check's `serve`: samples are served; what stands for them is on every rank the same."""
    x, y = (torch.from_numpy(ranks[0][name]) for name in "xy")
    x, y = functional.pad(x, (0, 0, 0, 1)), functional.pad(y, (0, 1))  # number UNKNOWN
    draw = torch.Generator().manual_seed(0)  # of no meaning
    stand_ins = torch.randn(LENGTH, FEATURES, generator=draw).double().numpy()
    return [rank | {"x": stand_ins} for rank in ranks], serving([x, y])


def drive(answer: ModuleType, inputs: dict[str, Any]) -> dict[str, Any]:
    """Train; record the weights and the learning rate before each step."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)  # tracing a graph takes longer than these few steps
    seen: list[dict[str, Any]] = []
    rows = inputs["x"].astype("float32")
    numbers = {row.tobytes(): number for number, row in enumerate(rows)}

    class Recorded(tf.keras.Sequential):
        def train_step(self, data):
            rate = float(self.optimizer.learning_rate)
            seen.append({"weights": self.get_weights(), "rate": rate})
            rows = data[0].numpy().astype("float32")
            x, y = ask({"take": [numbers.get(row.tobytes(), UNKNOWN) for row in rows]})
            return super().train_step((tf.constant(x.numpy()), tf.constant(y.numpy())))

    layers = tf.keras.layers
    model = Recorded(
        [
            layers.Input((inputs["x"].shape[1],), dtype="float64"),
            layers.Dense(inputs["weights"][1].size, "relu", dtype="float64"),
            layers.Dense(inputs["weights"][3].size, dtype="float64"),
        ]
    )
    model.set_weights(inputs["weights"])
    history = answer.train(
        model, inputs["x"], inputs["y"], EPOCHS, BATCH, LEARNING_RATE, warmup_epochs=WARMUP
    )
    if isinstance(history, dict):
        history = {
            str(name): [float(value) for value in values] if isinstance(values, list) else None
            for name, values in history.items()
        }
    return {"seen": seen, "final": model.get_weights(), "history": history}


def rate_at(step: int, steps: int, world_size: int) -> float:
    """The learning rate of a step, counted from 0: from one rank's to W times that.

    It rises in every step until WARMUP epochs of `steps` are over (Goyal et al. 2017, section 2.2).
    """
    done = min(1.0, (step + 1) / (WARMUP * steps))
    return LEARNING_RATE * (1 + (world_size - 1) * done)


def loss_of(weights: Weights, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Mean cross-entropy, and the share of right answers."""
    kernel, bias, outer_kernel, outer_bias = weights
    logits = torch.relu(x @ kernel + bias) @ outer_kernel + outer_bias
    right = (logits.argmax(1) == y).double().mean().item()
    return functional.cross_entropy(logits, y), right


def gradient_of(weights: Weights, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    leaves = [weight.clone().requires_grad_() for weight in weights]
    loss, _ = loss_of(leaves, x, y)
    return list(torch.autograd.grad(loss, leaves))


def followed(ranks: Sequence[dict[str, Any]], alike_at_once: bool) -> dict[str, Any]:
    """The right run: the weights before each step and at the end, and each rank's metrics.

    The callback broadcasts only after the first step. In that step each rank's gradient is at its
    own weights, unless all ranks were given the same weights before (`alike_at_once`).
    """
    world_size = len(ranks)
    steps = LENGTH // (BATCH * world_size)
    starts = [[torch.from_numpy(w) for w in rank["weights"]] for rank in ranks]
    weights = starts[0]
    x, y = torch.from_numpy(ranks[0]["x"]), torch.from_numpy(ranks[0]["y"])
    states, metrics = [], []
    for step in range(EPOCHS * steps):
        own = [weights if alike_at_once or step else starts[rank] for rank in range(world_size)]
        states.append(own)
        first = step % steps * BATCH * world_size
        shares = [
            slice(first + rank, first + BATCH * world_size, world_size)
            for rank in range(world_size)
        ]
        metrics.append(
            [
                [loss_of(mine, x[share], y[share])[0].item(), loss_of(mine, x[share], y[share])[1]]
                for mine, share in zip(own, shares, strict=True)
            ]
        )
        gradients = [gradient_of(m, x[s], y[s]) for m, s in zip(own, shares, strict=True)]
        rate = rate_at(step, steps, world_size)
        weights = [
            weight - rate * sum(parts) / world_size
            for weight, *parts in zip(weights, *gradients, strict=True)
        ]
    states.append([weights] * world_size)
    by_epoch = torch.tensor(metrics).reshape(EPOCHS, steps, world_size, 2).mean(1)
    return {"states": states, "loss": by_epoch[..., 0], "accuracy": by_epoch[..., 1]}


def expect(inputs: list[dict[str, Any]], world_size: int) -> dict[bool, dict[str, Any]]:
    """The run with equal weights from the start (True), and from the first step on (False)."""
    return {at_once: followed(inputs, at_once) for at_once in (True, False)}
