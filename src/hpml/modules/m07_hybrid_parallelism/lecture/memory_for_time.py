"""A training step that holds less memory and takes longer: computed again, or moved out."""

import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from hpml.models import VisionTransformer
from hpml.predict.draw import COLOURS, MARKERS
from hpml.ranks import launch

WAYS = ("all kept", "checkpointed", "activations out", "states out")
SMALL = 2**16  # bytes; smaller tensors stay


def measure(ways: tuple[str, ...] = WAYS, steps: int = 3) -> dict[str, tuple[int, float]]:
    """The peak bytes, by the kernel's count, and the seconds of the quickest step, of each way.

    Each runs on a rank of its own. "checkpointed" computes every block again in `backward` (Chen
    et al. 2016, Training Deep Nets with Sublinear Memory Cost); "activations out" writes to files
    what `backward` will need (as vDNN moves it from a GPU to its host; Rhu et al. 2016); "states
    out" has Adam's moments in files between steps. Raises RuntimeError where a step failed.
    """
    found = {}
    for way in ways:
        evidence = launch(partial(_train, way, steps), 1, count_memory=True)
        if evidence.diagnosis is not None:
            raise RuntimeError(f"{way}: {evidence.diagnosis.sentence}")
        (rank,) = evidence.ranks
        found[way] = (rank.peak_bytes or 0, rank.value)
    return found


def _train(way: str, steps: int) -> float:
    torch.manual_seed(0)
    model = VisionTransformer(width=256, depth=6, heads=8, patch=4)
    images, labels = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    if way == "states out":
        optimizer = AdamInFiles(model.parameters(), Path.cwd())
    else:
        optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    outside = files(model, Path.cwd()) if way == "activations out" else nullcontext()
    best = float("inf")
    for _ in range(steps):
        start = time.perf_counter()
        with outside:
            loss = F.cross_entropy(_forward(model, images, way == "checkpointed"), labels)
        loss.backward()
        optimizer.step()
        model.zero_grad()
        best = min(best, time.perf_counter() - start)
    return best


def _forward(model: VisionTransformer, images: Tensor, again: bool) -> Tensor:
    tokens = model.embed(images)
    for block in model.blocks:
        tokens = checkpoint(block, tokens, use_reentrant=False) if again else block(tokens)
    return model.head(model.norm(tokens).mean(dim=1))


def files(model: nn.Module, folder: Path) -> saved_tensors_hooks:
    """A context in which what autograd keeps for `backward` goes to files in `folder`.

    Parameters of `model` and small tensors stay. A file is removed once it was read.
    """
    stay = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    count = 0

    def pack(tensor: Tensor) -> Any:
        nonlocal count
        if tensor.nbytes < SMALL or tensor.untyped_storage().data_ptr() in stay:
            return tensor
        count += 1
        path = folder / f"activation-{count}.bin"
        tensor.detach().contiguous().numpy().tofile(path)
        return path, tensor.dtype, tensor.shape

    def unpack(packed: Any) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        path, dtype, shape = packed
        tensor = torch.empty(shape, dtype=dtype)
        with open(path, "rb") as file:
            file.readinto(tensor.numpy().data)
        path.unlink()
        return tensor

    return saved_tensors_hooks(pack, unpack)


class AdamInFiles:
    """Adam whose moments are in files of `folder` between steps; in memory are those of one
    parameter at a time. float32."""

    def __init__(self, parameters: Iterable[nn.Parameter], folder: Path):
        self._each = [torch.optim.Adam([parameter]) for parameter in parameters]
        self._folder = folder

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for number, adam in enumerate(self._each):
            (parameter,) = adam.param_groups[0]["params"]
            if parameter.grad is None:
                continue
            path = self._folder / f"state-{number}.pt"
            if path.exists():
                adam.state[parameter] = torch.load(path)
            adam.step()
            torch.save(dict(adam.state.pop(parameter)), path)


def picture(measured: Mapping[str, tuple[int, float]], *, title: str = "") -> Figure:
    """Seconds of a step against peak bytes: a point for each way, by name."""
    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for number, (name, (nbytes, seconds)) in enumerate(measured.items()):
        at = nbytes / 1e6, seconds * 1e3
        axes.plot(*at, MARKERS[number], color=COLOURS[number], markersize=9, label=name)
    most = max(nbytes for nbytes, _ in measured.values()) / 1e6
    longest = max(seconds for _, seconds in measured.values()) * 1e3
    axes.set(xlim=(0, 1.1 * most), ylim=(0, 1.2 * longest))
    axes.legend(loc="lower left")  # names beside the points would lie on each other
    axes.set(xlabel="peak memory of the rank (MB)", ylabel="time of a step (ms)")
    axes.grid(alpha=0.3)
    axes.set_title(title, loc="left", fontsize=10)
    return figure
