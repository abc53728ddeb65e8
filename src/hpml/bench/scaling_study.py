"""A scaling study on a cluster: training steps on more and more nodes, beside what was predicted.

`srun … python -m hpml.bench.scaling_study --out FOLDER` on each rank of each job of a study. A job
measures its own number of ranks and leaves RANKS.json in the folder; then it makes scaling.csv and
scaling.png anew from all sizes that are there. So the curve of the small jobs predicts the large
ones while they are still in the queue. The back end follows the device: NCCL or Gloo.
"""

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from hpml import distributed_environment
from hpml.bench.allreduce_study import PING_PONG, ranks_per_node
from hpml.bench.network import check_launch
from hpml.bench.scaling_sizes import (
    Size,
    conclusion,
    fitted_and_unseen,
    line,
    read_all,
    write,
    write_table,
)
from hpml.errors import USAGE, UserError
from hpml.measure.comm import fit, ping_pong
from hpml.models import ResidualNetwork
from hpml.models.waiting import WaitingLayer
from hpml.predict.model_layers import Layer, module_layers
from hpml.predict.scaling import BACKWARD, MIB
from hpml.predict.scaling_picture import scaling_picture
from hpml.ranks import launch
from hpml.train.hardware import pick_device, process_group
from hpml.train.leaving import leave

WIDTHS = (64, 256, 256)
WARM_UP = 2  # steps that do not count: connections are made, memory is allocated


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    try:
        place = distributed_environment.read()
        torch.set_num_threads(asked.threads)
        device = pick_device(asked.device, place.local_rank)
        with process_group(place, device):
            size = measure(asked, device)
        if place.rank == 0:
            report(asked.out, size)
    except UserError as error:
        print(f"scaling_study: {error}", file=sys.stderr)
        return USAGE
    return 0


def measure(asked: argparse.Namespace, device: torch.device) -> Size:
    """Step with these ranks, without and with communication; then α and β. A collective."""
    many = dist.is_initialized()
    ranks, per_node = (dist.get_world_size(), ranks_per_node()) if many else (1, 1)
    torch.manual_seed(0)
    network = ResidualNetwork(asked.widths)
    layers = module_layers(network, torch.zeros(1, 3, 32, 32))
    if asked.wait:
        network = waiting(layers, asked.wait * asked.batch)
    images = torch.randn(asked.batch, 3, 32, 32, device=device)
    labels = torch.randint(0, 10, (asked.batch,), device=device)
    step = training_step(network.to(device), images, labels, asked.bucket_mb)
    alone = _seconds(lambda: step(False), asked.steps, device)
    together = _seconds(lambda: step(True), asked.steps, device) if many else alone
    within = across = None
    if per_node > 1:
        within = fit(PING_PONG, ping_pong(PING_PONG, device=device))
    if per_node < ranks:
        across = fit(PING_PONG, ping_pong(PING_PONG, peer=per_node, device=device))
    return Size(
        ranks=ranks,
        per_node=per_node,
        batch=asked.batch,
        alone=min(alone) if asked.quickest else statistics.median(alone),
        seconds=(min(together),) if asked.quickest else tuple(together),
        within=(max(within.alpha, 0.0), within.beta) if within else None,
        across=(max(across.alpha, 0.0), across.beta) if across else None,
        bucket_bytes=asked.bucket_mb * MIB,
        layers=layers,
        waited=bool(asked.wait),
    )


def on_links(ranks: Sequence[int], link: str, options: str) -> list[Size]:
    """A study on this machine in place of a cluster: each rank behind a link of `link`.

    `options` are those of the program, without --out; with --wait there may be more ranks than
    cores. Raises UserError where a rank failed, or this machine cannot emulate a network.
    """
    with tempfile.TemporaryDirectory(prefix="hpml-scaling-") as folder:
        words = ["--out", folder, "--device", "cpu", "--quickest", *options.split()]
        for count in ranks:
            evidence = launch(_on_link, count, inputs=[words] * count, link=link, timeout=120.0)
            check_launch(evidence, "scaling_study")
        return read_all(Path(folder))


def _on_link(words: list[str]) -> None:
    from hpml.bench import scaling_study

    scaling_study.PING_PONG = (4, 256, 1_024, 200_000, 1_000_000)  # slower than a cluster's
    if scaling_study.main(words):
        raise RuntimeError(f"scaling_study {' '.join(words)} failed")


def training_step(
    network: nn.Module, images: Tensor, labels: Tensor, bucket_mb: float
) -> Callable[[bool], None]:
    """A function that makes one step, and sends the gradients if it is asked to."""
    parallel: nn.Module = network
    if dist.is_initialized():
        parallel = DistributedDataParallel(network, bucket_cap_mb=bucket_mb)
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.01)

    def step(sends: bool) -> None:
        quiet = isinstance(parallel, DistributedDataParallel) and not sends
        with parallel.no_sync() if quiet else contextlib.nullcontext():
            output = parallel(images)
            logits = output.flatten(1)  # of layers that wait: the images themselves
            nn.functional.cross_entropy(logits, labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def waiting(layers: Sequence[Layer], seconds: float) -> nn.Sequential:
    """Layers with the same gradients, which together wait `seconds` in a step, by their FLOP."""
    flop = sum(layer.flop for layer in layers)
    return nn.Sequential(
        *[
            WaitingLayer(
                (1 - BACKWARD) * seconds * layer.flop / flop,
                BACKWARD * seconds * layer.flop / flop,
                max(1, layer.parameter_bytes // 4),
            )
            for layer in layers
        ]
    )


def report(folder: Path, size: Size) -> None:
    """Write what was measured, and draw the study anew from all of its sizes so far."""
    write(folder, size)
    sizes = read_all(folder)
    fitted, unseen = fitted_and_unseen(sizes)
    write_table(folder / "scaling.csv", sizes, fitted, unseen)
    most = max(one.ranks for one in sizes)
    if fitted is not None:
        known = {one.ranks for one in sizes}
        ranks = sorted(known | {most * 2**k for k in range(1, 5)})
        points = [one.point for one in unseen]
        figure = scaling_picture(fitted, ranks, points, points="measured")
        figure.savefig(folder / "scaling.png", dpi=150)
    print(line(size), flush=True)
    for sentence in conclusion(sizes, fitted, unseen):
        print(sentence, flush=True)


def _seconds(step: Callable[[], None], steps: int, device: torch.device) -> list[float]:
    """Seconds of each step on the slowest rank; all begin when all are ready. A collective."""
    taken = []
    for _ in range(WARM_UP + steps):
        _wait_for_all(device)
        began = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - began)
    seconds = torch.tensor(taken[WARM_UP:], dtype=torch.float64, device=device)
    if dist.is_initialized():
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.tolist()


def _wait_for_all(device: torch.device) -> None:
    if dist.is_initialized():
        dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hpml.bench.scaling_study")
    parser.add_argument("--out", type=Path, required=True, help="folder of the study")
    parser.add_argument("--batch", type=int, default=64, help="images on each rank")
    parser.add_argument("--steps", type=int, default=20, help="that are timed, of each kind")
    parser.add_argument("--widths", type=_numbers, default=WIDTHS, help="channels of the stages")
    parser.add_argument("--bucket-mb", type=float, default=25.0, help="MiB in a bucket of DDP")
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait so long for each image in place of computing it: for nodes that share the cores "
        "of one machine, as those of ./hpml cluster up do",
    )
    parser.add_argument(
        "--quickest",
        action="store_true",
        help="count the quickest step, not the median: where other programs use the cores as well",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(","))


if __name__ == "__main__":
    leave(main())
