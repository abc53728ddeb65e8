"""Eager against compiled: a training step of the course's network, over batch sizes.

`python -m hpml.bench.eager_compiled --out FOLDER`; leaves eager_compiled.csv and eager_compiled.png
in the folder. On a GPU a third way is measured: mode "reduce-overhead" of torch.compile, which
records all kernels of a step as CUDA graphs and starts each graph with one call
(https://docs.pytorch.org/docs/stable/generated/torch.compile.html).
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch
import torch._dynamo  # every optimizer imports it later, which takes seconds of the first step
from torch.nn.functional import cross_entropy

from hpml.bench.eager_compiled_picture import drawn
from hpml.bench.eager_compiled_timings import COMPILED, EAGER, GRAPHS, Timing, Timings, line, write
from hpml.errors import USAGE, UserError
from hpml.models import ResidualNetwork
from hpml.train.hardware import pick_device

MODES: Mapping[str, str | None] = {COMPILED: None, GRAPHS: "reduce-overhead"}
BATCHES = (1, 4, 16, 64, 256)
WIDTHS = (64, 256, 256)
BACKENDS = ("inductor", "aot_eager")
ROUNDS = 7
SHORTEST = 0.2  # seconds of one timing, at least
SAME = 1e-3  # how far losses may be apart, relative


def measure(
    batches: Sequence[int],
    device: torch.device,
    widths: Sequence[int] = WIDTHS,
    rounds: int = ROUNDS,
    backend: str = BACKENDS[0],
    report: Callable[[str], None] = print,
) -> Timings:
    """Time a step by each way at each batch size, in `rounds` rounds in which the ways take turns.

    `backend` is torch.compile's.

    Raises UserError where a way comes to another loss than the eager one, and where there is no
    C++ compiler.
    """
    found: dict[int, dict[str, Timing]] = {}
    for batch in batches:
        torch.compiler.reset()  # each batch size is compiled anew
        steps = {way: _step(way, batch, device, widths, backend) for way in ways(device)}
        first, losses = {}, {}
        for way, step in steps.items():
            first[way], losses[way] = _first(step, device)
        _same(losses, batch)
        repeats = {way: _repeats(step, device) for way, step in steps.items()}
        taken: dict[str, list[float]] = {way: [] for way in steps}
        for turn in range(rounds):
            for way in list(steps)[:: 1 if turn % 2 == 0 else -1]:
                taken[way].append(_seconds(steps[way], repeats[way], device))
        found[batch] = {way: Timing(taken[way], first[way]) for way in steps}
        for way, timing in found[batch].items():
            report(line(batch, way, timing, found[batch][EAGER]))
    return found


def ways(device: torch.device) -> list[str]:
    """What is compared there: CUDA graphs are for GPUs."""
    return [EAGER, COMPILED, GRAPHS] if device.type == "cuda" else [EAGER, COMPILED]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    try:
        torch.set_num_threads(asked.threads)
        device = pick_device(asked.device, 0)
        where = f"{device.type}, {asked.threads} thread{'s' * (asked.threads > 1)}"
        print(f"a training step of the course's network, float32, {where}", flush=True)
        with no_cache(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="dynamo_pgo")  # of the cache that is off
            shown = partial(print, flush=True)  # a job's log is a file, which gets lines in blocks
            timings = measure(
                asked.batches, device, asked.widths, asked.rounds, asked.backend, shown
            )
    except UserError as error:
        print(f"eager_compiled: {error}", file=sys.stderr)
        return USAGE
    asked.out.mkdir(parents=True, exist_ok=True)
    write(asked.out / "eager_compiled.csv", timings)
    drawn(timings, where).savefig(asked.out / "eager_compiled.png", dpi=150)
    return 0


@contextlib.contextmanager
def no_cache() -> Iterator[None]:
    """Everything is compiled anew, and nothing of it is left on the node.

    Usually torch.compile keeps what it compiled on disk, and the next process starts sooner.
    """
    config, temporary = torch.compiler.config, tempfile.tempdir
    before = config.force_disable_caches
    with tempfile.TemporaryDirectory(prefix="hpml-inductor-") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        tempfile.tempdir = folder  # where precompiled headers go
        config.force_disable_caches = True
        try:
            yield
        finally:
            config.force_disable_caches, tempfile.tempdir = before, temporary
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]


def _step(
    way: str, batch: int, device: torch.device, widths: Sequence[int], backend: str
) -> Callable[[], torch.Tensor]:
    """A step of a fresh network, always the same one, on images that are always the same."""
    torch.manual_seed(0)
    network = ResidualNetwork(widths).to(device, memory_format=torch.channels_last)
    images = torch.randn(batch, 3, 32, 32).to(device, memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (batch,)).to(device)
    learned = [p for p in network.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(learned, lr=0.01, momentum=0.9)

    def loss_of(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return cross_entropy(network(images), labels)

    if way != EAGER:
        loss_of = torch.compile(
            loss_of, backend=backend, mode=MODES[way], fullgraph=True, dynamic=False
        )

    def step() -> torch.Tensor:
        if way == GRAPHS:
            # Tensors of the step before may be overwritten now: their memory is the graph's.
            torch.compiler.cudagraph_mark_step_begin()
        loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def _first(step: Callable[[], torch.Tensor], device: torch.device) -> tuple[float, float]:
    """Seconds of the first step, which compiles, and its loss.

    On a GPU two more steps belong to it: CUDA graphs warm up in one and are recorded in the next.
    """
    began = time.perf_counter()
    try:
        loss = step().item()
    except Exception as error:  # inductor's own, for many reasons
        if "No working C++ compiler" not in str(error):
            raise
        raise UserError(
            "torch.compile wants a C++ compiler: apt install g++, or load the cluster's module"
        ) from None
    if device.type == "cuda":
        for _ in range(2):
            step()
        torch.cuda.synchronize()
    return time.perf_counter() - began, loss


def _same(losses: Mapping[str, float], batch: int) -> None:
    """Raise UserError where a way's first loss is not the eager one's: it computes another step."""
    for way, loss in losses.items():
        if not abs(loss - losses[EAGER]) <= SAME * abs(losses[EAGER]):
            raise UserError(
                f"with {batch} images the first loss is {loss:.5f} with {way}, "
                f"{losses[EAGER]:.5f} with {EAGER}: they do not compute the same"
            )


def _repeats(step: Callable[[], object], device: torch.device) -> int:
    """How many steps take SHORTEST seconds."""
    return max(1, round(SHORTEST / _seconds(step, 1, device)))


def _seconds(step: Callable[[], object], repeats: int, device: torch.device) -> float:
    """Seconds of one step. A GPU runs behind Python, so it is waited for before the clock is read;
    once for all steps, for in between it should not be."""
    wait = torch.cuda.synchronize if device.type == "cuda" else _nothing
    wait()
    began = time.perf_counter()
    for _ in range(repeats):
        step()
    wait()
    return (time.perf_counter() - began) / repeats


def _nothing() -> None:
    pass


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hpml.bench.eager_compiled")
    parser.add_argument("--out", type=Path, required=True, help="folder for table and figure")
    parser.add_argument("--batches", type=_numbers, default=BATCHES, help="with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="timings of each way")
    parser.add_argument("--widths", type=_numbers, default=WIDTHS, help="channels of the stages")
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        default=BACKENDS[0],
        help="of torch.compile; aot_eager only captures the graph, and needs no C++ compiler",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
