"""The course's training script on CIFAR-10: accuracy against seconds, in four ways."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hpml.record import images
from hpml.record.kept import Place
from hpml.train.config import TrainConfig
from hpml.train.run import train

# The recipe as it is; short, with images of one size, since each is compiled anew; and one with
# more channels and epochs, which is to get further.
RECIPES: dict[str, dict[str, Any]] = {
    "recipe": {},
    "one_size": {"early_share": 0.0, "epochs": 4},
    "wide": {"widths": (128, 384, 512), "epochs": 40, "early_share": 0.0},
}
# Four times the images of a step, and less than four times the rate.
ON_GPU: dict[str, Any] = {"batch_size": 1000, "lr": 1.0}
# On a CPU the same ways, so small that they end within the limit.
ON_CPU: dict[str, Any] = {
    "samples": 200,
    "test_samples": 200,
    "epochs": 1,
    "batch_size": 50,
    "widths": (8, 16, 16),
    "early_share": 0.0,
}
WAYS = (
    ("recipe", "bf16", False),
    ("wide", "bf16", False),
    ("recipe", "fp32", False),
)
# By itself: a compiler takes its time, and may not be there.
COMPILED_WAYS = (("one_size", "bf16", False), ("one_size", "bf16", True))


def compiled(place: Place) -> dict[str, Any]:
    """As `measure`, with the network compiled."""
    return measure(place, COMPILED_WAYS)


def measure(place: Place, ways: Sequence[tuple[str, str, bool]] = WAYS) -> dict[str, Any]:
    """A list of runs: recipe, precision, compiled, images/s, and by epoch seconds and accuracy.

    A first short run is not kept: it loads kernels. A way that fails costs only itself.
    """
    size = ON_GPU if place.gpu else ON_CPU
    short: dict[str, Any] = {"samples": 2_000, "test_samples": 1_000, "epochs": 1}
    common: dict[str, Any] = {"data": place.images, "device": place.device, "progress": False}
    packed = bool(place.images and images.packed(place.images))
    train(TrainConfig(**{**common, **size, **short}))
    runs: list[dict[str, Any]] = []
    for recipe, precision, compiles in ways:
        one = {"recipe": recipe, "precision": precision, "compiled": compiles}
        options = {**common, **size, **RECIPES[recipe], **({} if place.gpu else ON_CPU)}
        config = TrainConfig(**options, precision=precision, compile=compiles)
        if place.gpu:
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        try:
            history = train(config)
        except Exception as error:  # a compiler that is missing, a kernel that does not exist
            runs.append({**one, "failed": f"{type(error).__name__}: {error}"[:400]})
            print(f"    {_name(one)}: failed: {type(error).__name__}", flush=True)
            continue
        finally:
            if compiles:
                torch.compiler.reset()
        epochs = [
            {"seconds": epoch.seconds, "accuracy": epoch.test_accuracy} for epoch in history.epochs
        ]
        runs.append(
            {
                **one,
                "batch_size": config.batch_size,
                "widths": list(config.widths),
                "images": config.samples or 50_000,
                "synthetic": history.synthetic,
                "packed": packed,
                "whole_seconds": time.perf_counter() - began,
                "images_per_second": history.epochs[-1].images_per_second,
                "epochs": epochs,
                "memory": torch.cuda.max_memory_allocated() if place.gpu else None,
            }
        )
        print(
            f"    {_name(one)}: {history.test_accuracy:.2%} after {history.seconds:.1f} s, "
            f"{history.epochs[-1].images_per_second:,.0f} images/s",
            flush=True,
        )
        place.so_far(runs)
    return {"runs": runs, "defaults": _defaults()}


def seconds_to(run: Mapping[str, Any], accuracy: float) -> float | None:
    """Seconds of training after which a run's test accuracy was first so high; None: never."""
    seconds = 0.0
    for epoch in run["epochs"]:
        seconds += epoch["seconds"]
        if epoch["accuracy"] >= accuracy:
            return seconds
    return None


def _defaults() -> dict[str, Any]:
    config = TrainConfig()
    return {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if isinstance(getattr(config, field.name), int | float | str)
    }


def _name(one: dict[str, Any]) -> str:
    return f"{one['recipe']}, {one['precision']}{', compiled' if one['compiled'] else ''}"
