"""One training step of one network on one batch, in each framework; and the forward pass alone.

Every way begins with the same weights and must come to the same losses and weights. Each is a
process of its own; in a round they run one after the other.
"""

import contextlib
import importlib.metadata
import importlib.util
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpml.bench.table import Row, Table, machine_conditions
from hpml.errors import UserError
from hpml.frameworks import one_step
from hpml.frameworks.one_step import LEARNING_RATE, MOMENTUM, Given
from hpml.frameworks.one_step_process import FIRST, Started, WayProcess

BATCH = 64
REPEATS = {True: 2, False: 4}  # steps, forward passes: of one timing
LOSSES, LOGITS = 1e-4, 1e-4  # how far apart they may be, relative to the largest
WEIGHTS = 1e-2  # relative to how far they have come from where they began
PACKAGES = {"tensorflow": ("tensorflow", "tensorflow-cpu"), "onnxruntime": ("onnxruntime",)}


@dataclass(frozen=True)
class Way:
    """`function` is "module.function" in hpml.frameworks; `needs` a package, beside PyTorch."""

    name: str
    function: str
    trains: bool = True
    needs: str = "torch"


EAGER = "a step, PyTorch eager"
FORWARD = "forward, PyTorch eager"
WAYS = (
    Way(EAGER, "one_step_torch.eager"),
    Way("a step, torch.compile", "one_step_torch.compiled"),
    Way("a step, TensorFlow eager", "one_step_tensorflow.eager", needs="tensorflow"),
    Way("a step, tf.function", "one_step_tensorflow.graph", needs="tensorflow"),
    Way("a step, tf.function with XLA", "one_step_tensorflow.xla", needs="tensorflow"),
    Way(FORWARD, "one_step_torch.eager", trains=False),
    Way("forward, torch.compile", "one_step_torch.compiled", trains=False),
    Way("forward, tf.function", "one_step_tensorflow.graph", trains=False, needs="tensorflow"),
    Way("forward, ONNX Runtime", "one_step_onnx.runtime", trains=False, needs="onnxruntime"),
)


def bench(
    rounds: int = 5,
    batch: int = BATCH,
    threads: int = 1,
    widths: Sequence[int] = one_step.WIDTHS,
    ways: Sequence[Way] = WAYS,
    report: Callable[[str], None] = print,
) -> Table:
    """Measure in `rounds` rounds, each with all ways; `report` gets lines on the way.

    A way that cannot be had here is left out, and the table's conditions name the reason. Raises
    UserError where PyTorch's eager way fails, or where a way comes to other results.
    """
    conditions = machine_conditions()
    given = one_step.made(batch, widths)
    started: dict[str, Started] = {}
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="hpml-frameworks-") as folder:
        file = Path(folder) / "given.npz"
        given.write(file)
        with contextlib.ExitStack() as open_ways:
            processes: dict[Way, WayProcess] = {}
            for way in ways:
                try:
                    if importlib.util.find_spec(way.needs) is None:
                        raise UserError(f"{way.needs} is not installed: pip install {way.needs}")
                    process = WayProcess(way.function, file, way.trains, threads)
                    open_ways.enter_context(process)
                    started[way.name] = process.started()
                except UserError as error:
                    if way.name in (EAGER, FORWARD):
                        raise
                    conditions[way.name] = f"not measured: {error}"
                    continue
                processes[way] = process
                report(f"{way.name}: first one after {started[way.name].prepared:.1f} s")
            conditions["same results"] = same_results(started, given)
            for number in range(rounds):
                # There and back, so that nobody always comes after the same one
                for way in list(processes)[:: 1 if number % 2 == 0 else -1]:
                    taken = processes[way].run(REPEATS[way.trains])
                    seconds.setdefault(way.name, []).append(taken)
                report(f"round {number + 1} of {rounds}")
    conditions["step"] = (
        f"forward, backward and SGD with momentum ({LEARNING_RATE:g}, {MOMENTUM:g}) on {batch} "
        f"images of 32 × 32, float32, {threads} thread{'s' * (threads > 1)}; PyTorch in "
        f"channels_last, which is TensorFlow's layout; mean of {REPEATS[True]} steps or "
        f"{REPEATS[False]} forward passes, {rounds} rounds, each way a process of its own"
    )
    conditions["versions"] = ", ".join(_versions())
    conditions["to prepare"] = (
        "the first step or pass and what comes before it (export, trace, compilation with no "
        "cache), less a later one; libraries were imported before"
    )
    if payback := break_even(started, seconds):
        conditions["pays"] = payback
    return Table("bench frameworks", rows(started, seconds, batch), conditions)


def rows(
    started: Mapping[str, Started], seconds: Mapping[str, Sequence[float]], batch: int
) -> list[Row]:
    """Images/s of each way beside PyTorch's eager one, then the seconds that it took to prepare;
    from the seconds of one run by name and round."""
    out = []
    for name, taken in seconds.items():
        base = _base(name) if name != _base(name) else None
        out.append(Row(name, [batch / one for one in taken], "images/s", base=base))
    for name, taken in seconds.items():
        out.append(Row(f"{name}: to prepare", [prepared(started[name], taken)], "s"))
    return out


def prepared(started: Started, seconds: Sequence[float]) -> float:
    """Seconds that the first run took beyond a usual one."""
    return max(0.0, started.prepared - float(np.median(seconds)))


def break_even(started: Mapping[str, Started], seconds: Mapping[str, Sequence[float]]) -> str:
    """After how many runs each way has made up for what it took longer to prepare; "" for none."""
    found = []
    for name, taken in seconds.items():
        base = _base(name)
        if name == base:
            continue
        longer = prepared(started[name], taken) - prepared(started[base], seconds[base])
        gained = float(np.median(seconds[base]) - np.median(taken))
        if gained <= 0:
            found.append(f"{name}: never, it is not faster")
        elif longer <= 0:
            found.append(f"{name}: at once")
        else:
            found.append(f"{name}: after {longer / gained:,.0f} times")
    return "; ".join(found)


def same_results(started: Mapping[str, Started], given: Given) -> str:
    """How far all ways are from PyTorch's eager one, in words. UserError where that is too far."""
    worst = {"losses": 0.0, "weights": 0.0, "logits": 0.0}
    limits = {"losses": LOSSES, "weights": WEIGHTS, "logits": LOGITS}
    for name, one in started.items():
        for what, far in _apart(one, started[_base(name)], given).items():
            worst[what] = max(worst[what], far)
            if not far <= limits[what]:  # also where it is not a number
                raise UserError(
                    f"bench frameworks: {name}: {what} differ by {far:.1e} from those of "
                    f"{_base(name)}, allowed are {limits[what]:g}: it does not compute the same"
                )
    return (
        f"largest difference from PyTorch eager: losses of the first {FIRST} steps "
        f"{worst['losses']:.0e}, weights after them {worst['weights']:.0e} of how far they moved, "
        f"logits {worst['logits']:.0e}; allowed: {LOSSES:g}, {WEIGHTS:g}, {LOGITS:g}"
    )


def _apart(one: Started, base: Started, given: Given) -> dict[str, float]:
    """Relative differences: of what there is, losses and weights, or logits."""
    if one.logits is not None and base.logits is not None:
        return {"logits": _relative(one.logits, base.logits, base.logits)}
    losses, expected = np.array(one.losses), np.array(base.losses)
    weights = [
        _relative(one.weights[name], value, value - given.weights[name])
        for name, value in base.weights.items()
    ]
    return {"losses": _relative(losses, expected, expected), "weights": max(weights, default=0.0)}


def _relative(found: np.ndarray, expected: np.ndarray, scale: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(scale).max())


def _base(name: str) -> str:
    return FORWARD if name.startswith("forward") else EAGER


def _versions() -> list[str]:
    found = []
    for names in PACKAGES.values():
        for name in names:
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found.append(f"{name} {importlib.metadata.version(name)}")
    return found
