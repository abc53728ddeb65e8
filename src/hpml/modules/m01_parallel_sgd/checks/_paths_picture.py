"""The picture of an answer to sync_sgd: the ranks' weights step by step, beside one process's."""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hpml.checks.contract import Check, Picture
from hpml.checks.kits.pictured import at_work, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (12, 24, 48, 96)  # samples of each rank: a mean of means is far from the mean
OPTIMA = ((-2.0, 1.0), (0.0, -2.0), (3.0, -1.0), (2.0, 2.0))  # of each rank's own samples, nearly
STARTS = ((-3.0, -2.0), (-3.2, 2.2), (3.6, -2.4), (0.2, 2.6))  # of each rank: rank 0's counts
RATE, STEPS, SEED = 0.3, 10, 7
EQUAL = 1e-9  # float64: only the order of additions may differ
GREY = "#666666"


def paths_picture(check: Check, source: str) -> Picture:
    """For `Check.picture`. Raises ValueError where a rank's weights are not two finite numbers."""
    given = inputs()
    evidence = at_work(check, source, walk, given)
    paths = [path_of(rank.value) for rank in evidence.ranks]
    words = (
        f"The weights of {len(given)} ranks in {STEPS} steps of your answer, beside those of one "
        "process with all samples, and the places to which each rank's own samples lead"
    )
    return Picture(png(drawn(paths, given)), words)


def inputs() -> list[dict[str, Any]]:
    """For each rank: its `own` weights, float64 (2,), and its samples `x` (n, 2) and `y` (n,)."""
    draw = torch.Generator().manual_seed(SEED)
    found = []
    for length, optimum, start in zip(LENGTHS, OPTIMA, STARTS, strict=True):
        x = torch.randn(length, 2, generator=draw, dtype=torch.float64)
        noise = 0.2 * torch.randn(length, generator=draw, dtype=torch.float64)
        y = x @ torch.tensor(optimum, dtype=torch.float64) + noise
        found.append({"own": torch.tensor(start, dtype=torch.float64), "x": x, "y": y})
    return found


def walk(answer: ModuleType, inputs: dict[str, Any]) -> list[Any]:
    """On a rank: the weights at the start and after each step."""
    weights = answer.start(inputs["own"].clone())
    path = [weights.clone()]
    for _ in range(STEPS):
        weights = answer.step(weights, inputs["x"].clone(), inputs["y"].clone(), RATE)
        path.append(weights.clone())
    return path


def path_of(value: Any) -> Tensor:
    """A rank's path as float64 (STEPS + 1, 2)."""
    for weights in value:
        fits = isinstance(weights, Tensor) and weights.shape == (2,)
        if not fits or not torch.isfinite(weights).all():
            raise ValueError("weights that are not two finite numbers")
    return torch.stack([weights.double() for weights in value])


def one_process(given: Sequence[dict[str, Any]]) -> tuple[Tensor, Tensor, Tensor]:
    """Its path, (STEPS + 1, 2), and all samples: x (n, 2), y (n,)."""
    x, y = (torch.cat([rank[name] for rank in given]) for name in "xy")
    path = [given[0]["own"]]
    for _ in range(STEPS):
        path.append(path[-1] - RATE * x.T @ (x @ path[-1] - y) / len(y))
    return torch.stack(path), x, y


def title_of(paths: Sequence[Tensor], right: Tensor, samples: int) -> str:
    """The message: whether all ranks walk where one process does, and which does not."""
    off = torch.stack([(path - right).norm(dim=1) for path in paths])  # by rank and step
    if off.max() <= EQUAL:
        return f"{len(paths)} ranks walk where one process with all {samples} samples does"
    rank, last = int(off[:, -1].argmax()), off[:, -1]
    if last[rank] <= EQUAL:
        return f"Not all ranks walk where one process with all {samples} samples does"
    together = all((path[-1] - paths[0][-1]).norm() <= EQUAL for path in paths)
    who = "all ranks are" if together else f"rank {rank} is"
    return (
        f"After {STEPS} steps {who} {last[rank]:.2g} away from one process with all {samples} "
        "samples"
    )


def drawn(paths: Sequence[Tensor], given: Sequence[dict[str, Any]]) -> "Figure":
    """`paths[rank]` are the weights (STEPS + 1, 2)."""
    from matplotlib.figure import Figure

    from hpml.trace.layout import PALETTE

    right, x, y = one_process(given)
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.subplots()
    near = torch.cat([right, *(rank["own"][None] for rank in given), torch.tensor(OPTIMA)])
    (left, low), (end, high) = (near.amin(0) - 0.6).tolist(), (near.amax(0) + 0.6).tolist()
    across, up = torch.linspace(left, end, 80), torch.linspace(low, high, 80)
    grid = torch.cartesian_prod(across, up).double()  # across by up
    loss = ((grid @ x.T - y) ** 2).mean(1) / 2
    levels = loss.min() + (loss.max() - loss.min()) * torch.tensor([0.01, 0.05, 0.15, 0.35, 0.65])
    axes.contour(across, up, loss.view(80, 80).T, levels=levels, colors="#cccccc", linewidths=0.8)
    axes.plot(*right.T, color="black", marker="o", markersize=13, fillstyle="none", linewidth=0.8,
              label=f"one process, all {len(y)} samples")  # fmt: skip
    for rank, (path, own) in enumerate(zip(paths, given, strict=True)):
        colour, wide = PALETTE[rank], 8 - 2 * rank  # where ranks agree, all can be seen
        samples = len(own["y"])
        axes.plot(*path.T, color=colour, linewidth=wide, marker="o", markersize=wide + 1,
                  label=f"rank {rank}, {samples} samples")  # fmt: skip
        axes.plot(*own["own"], color=colour, marker="x", markersize=9, markeredgewidth=2)
        best = torch.linalg.lstsq(own["x"], own["y"][:, None]).solution[:, 0]
        axes.plot(*best, color=colour, marker="*", markersize=8 + samples / 12,
                  markeredgecolor="black")  # fmt: skip
    for marker, label in (("x", "a rank's own weights"), ("*", "best for a rank's own samples")):
        axes.plot([], [], marker, color=GREY, markersize=9, label=label)
    axes.set_xlim(left, end)
    axes.set_ylim(low, high)
    axes.set_xlabel("first weight", fontsize=9)
    axes.set_ylabel("second weight", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title_of(paths, right, len(y)), loc="left")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure
