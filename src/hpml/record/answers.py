"""The exercises' reference answers with the device's tensors: do they hold where GPUs are?

Checks play answers on CPUs. Here each is called once as its exercise says, over NCCL on one GPU and
over Gloo with two ranks on it, and compared with PyTorch's own or with one rank's result.
"""

import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from hpml.answer import cells
from hpml.answer.module import as_module
from hpml.errors import UserError
from hpml.paths import CHECKOUT
from hpml.record import ranks
from hpml.record.kept import Place

STEPS = 4
NOTEBOOKS = {
    "process_group": "06_torch_distributed",
    "ddp": "06_torch_distributed",
    "checkpoint": "06_torch_distributed",
    "mixed_precision": "02_hardware",
    "fsdp": "07_hybrid_parallelism",
}


def measure(place: Place) -> dict[str, Any]:
    """By answer and launch, as "ddp, 2 × gloo": the facts that were seen, or why it failed."""
    sources = {name: source(name) for name in NOTEBOOKS}
    alone = "nccl" if place.gpu else "gloo"
    found: dict[str, Any] = {}
    for count, backend in ((1, alone), (2, "gloo")):
        began = time.perf_counter()
        for facts in ranks.run(play_all, count, backend, sources, place.device)[:1]:
            found |= {f"{name}, {count} × {backend}": fact for name, fact in facts.items()}
        bad = [name for name, fact in facts.items() if "failed" in fact]
        said = f"failed: {', '.join(bad)}" if bad else f"{len(facts)} answers hold"
        took = time.perf_counter() - began
        print(f"    {count} × {backend}: {said} ({took:.0f} s)", flush=True)
    return found


def source(exercise: str) -> str:
    """The text of an exercise's reference answer."""
    path = CHECKOUT / "solutions" / f"{NOTEBOOKS[exercise]}.py"
    for cell in cells.of_script(path.read_bytes()):
        magic, _, text = cell.source.partition("\n")
        if magic.split() == ["%%answer", exercise]:
            return text
    raise UserError(f"{path.name} has no answer of {exercise}")


def play_all(sources: dict[str, str], device: str) -> dict[str, Any]:
    """On a rank: the facts of each answer. One that fails on some ranks alone ends them all."""
    found = {}
    for name, text in sources.items():
        answer = as_module(text, f"<{name}>")
        try:
            found[name] = PLAYS[name](answer, device)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            found[name] = {"failed": f"{type(error).__name__}: {error}"[:300], "line": last.line}
        dist.barrier()
    return found


def process_group(answer: ModuleType, device: str) -> dict[str, Any]:
    """Its settings name this rank's GPU; a group of its own is not made beside the one here."""
    import os

    mine = answer.settings(os.environ, torch.cuda.device_count() if device == "cuda" else 0)
    one = torch.ones(1, device=mine["device"])
    dist.all_reduce(one)
    _expect(one.item() == dist.get_world_size(), "a sum over ranks", one.item())
    return {"device": mine["device"], "backend": dist.get_backend()}


def ddp(answer: ModuleType, device: str) -> dict[str, Any]:
    """Its gradients are DistributedDataParallel's."""
    models = [_mlp(device) for _ in range(2)]
    own, theirs = answer.DataParallel(models[0]), nn.parallel.DistributedDataParallel(models[1])
    far = 0.0
    for step in range(STEPS):
        x, y = _batch(step, device)
        for wrapped in (own, theirs):
            wrapped.zero_grad()
            F.cross_entropy(wrapped(x), y).backward()
        own.synchronize()
        far = max(far, _apart(*([p.grad for p in m.parameters()] for m in models)))
        for model in models:
            _descend(model)
    _expect(far < 1e-5, "gradients apart", far)
    return {"gradients_apart": far}


def checkpoint(answer: ModuleType, device: str) -> dict[str, Any]:
    """A run that was saved and loaded goes on as the one that was not stopped."""
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folder)
    path = str(Path(folder[0]) / "saved.pt")
    runs = [_training(answer, device) for _ in range(2)]
    for model, optimizer, sampler in runs[:1]:
        _epoch(model, optimizer, sampler, device)
        answer.save(path, model, optimizer, sampler)
    answer.load(path, *runs[1])
    for model, optimizer, sampler in runs:
        _epoch(model, optimizer, sampler, device)
    far = _apart(*(list(model.parameters()) for model, _, _ in runs))
    _expect(far == 0, "weights apart", far)
    return {"weights_apart": far, "bytes": Path(path).stat().st_size}


def mixed_precision(answer: ModuleType, device: str) -> dict[str, Any]:
    """bfloat16 learns; float16's gradients overflow at a large scale, which is then halved."""
    torch.manual_seed(0)
    weights = {
        "w1": torch.randn(32, 64, device=device) / 32**0.5,
        "gain": torch.ones(64, device=device),
        "w2": torch.randn(64, 10, device=device) / 8,
        "bias": torch.zeros(10, device=device),
    }
    x, y = _batch(0, device)
    trainer = answer.Trainer({name: w.clone() for name, w in weights.items()}, 0.1)
    losses = [trainer.step(x, y).item() for _ in range(20)]
    _expect(losses[-1] < losses[0], "losses", losses)
    scale, taken = answer.LossScale(2.0**24, 100), []
    half = {name: w.half().requires_grad_() for name, w in weights.items()}
    for _ in range(20):
        hidden = (x.half() @ half["w1"]).relu() * half["gain"]
        logits = hidden @ half["w2"] + half["bias"]
        loss = F.cross_entropy(logits.float(), y) * scale.scale
        gradients = dict(zip(half, torch.autograd.grad(loss, list(half.values())), strict=True))
        taken.append(scale.step(weights, gradients, 0.1, 1.0))
    _expect(any(taken) and not all(taken), "steps taken", taken)
    return {"losses": [losses[0], losses[-1]], "steps_taken": sum(taken), "scale": scale.scale}


def fsdp(answer: ModuleType, device: str) -> dict[str, Any]:
    """Its weights after some steps are those of one whole model on all ranks' images."""
    models = [_mlp(device) for _ in range(2)]
    sharded, whole = answer.FullyShard(models[0]), models[1]
    for step in range(STEPS):
        x, y = _batch(step, device)
        for model in (sharded, whole):
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
        sharded.synchronize()
        for parameter in whole.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()
        for model in (sharded, whole):
            _descend(model)
    names = [name for name, _ in whole.named_parameters()]
    far = _apart([sharded.gather(name) for name in names], list(whole.parameters()))
    _expect(far < 1e-5, "weights apart", far)
    return {"weights_apart": far}


PLAYS: dict[str, Callable[[ModuleType, str], dict[str, Any]]] = {
    "process_group": process_group,
    "ddp": ddp,
    "checkpoint": checkpoint,
    "mixed_precision": mixed_precision,
    "fsdp": fsdp,
}


def _mlp(device: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.Linear(64, 10)).to(
        device
    )


def _batch(step: int, device: str) -> tuple[Tensor, Tensor]:
    """Another one on each rank: x [16, 32], y [16]."""
    draw = torch.Generator().manual_seed(100 * step + dist.get_rank())
    x, y = torch.randn(16, 32, generator=draw), torch.randint(0, 10, (16,), generator=draw)
    return x.to(device), y.to(device)


def _descend(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad


def _training(answer: ModuleType, device: str) -> tuple[nn.Module, torch.optim.Optimizer, Any]:
    model = _mlp(device)
    return model, torch.optim.Adam(model.parameters()), answer.ResumableSampler(64, 16)


def _epoch(model: nn.Module, optimizer: torch.optim.Optimizer, sampler: Any, device: str) -> None:
    for step, index in enumerate(sampler):
        x, y = _batch(step + sum(index), device)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def _apart(ones: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    pairs = zip(ones, others, strict=True)
    return max(float((one - other).detach().abs().max()) for one, other in pairs)


def _expect(held: bool, what: str, seen: Any) -> None:
    if not held:
        raise AssertionError(f"{what}: {seen}")
