"""The predictor against measured steps: ranks that wait in place of computing, on emulated links.

A rank that waits needs no core, so four of them work side by side on two cores as if each had a
machine of its own; what they send goes over links that the kernel holds to their rate. Nothing is
fitted: α and β are those of a ping-pong between two ranks.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpml.bench.network import check_launch
from hpml.measure.comm import fit, ping_pong
from hpml.network.link import format_rate, parse_rate
from hpml.predict.collectives import Cost
from hpml.predict.model_layers import model
from hpml.predict.scaling import BUCKET, Level, Network, Prediction, Training, buckets, predict
from hpml.ranks import Evidence, launch

RATES = ("100mbit", "1gbit", "10gbit")
RANKS = (1, 2, 3, 4)
MODELS = {"resnet50": 0.2, "vgg16": 0.4}  # seconds of compute in a step, which are waited
SHRUNK = 1 / 40  # of their bytes, buckets too: a step of VGG-16 at 100 Mbit/s would last a minute
STEPS = 4  # of which the first, which makes connections, does not count


@dataclass(frozen=True)
class Measured:
    """Seconds of a step (median over steps of the slowest rank) beside what was foretold."""

    model: str
    rate: str
    seconds: float
    foretold: Prediction

    @property
    def error(self) -> float:
        """Foretold over measured, less 1."""
        return self.foretold.step.seconds / self.seconds - 1

    def __str__(self) -> str:
        return (
            f"{self.model}, {format_rate(parse_rate(self.rate))}, {self.foretold.ranks} ranks: "
            f"{1e3 * self.seconds:.0f} ms, foretold {1e3 * self.foretold.step.seconds:.0f} ms "
            f"({self.error:+.1%})"
        )


def measure(
    rates: Sequence[str] = RATES,
    ranks: Sequence[int] = RANKS,
    report: Callable[[str], None] = print,
) -> list[Measured]:
    """Each model on each number of ranks over links of each rate.

    Raises UserError where this machine cannot emulate a network.
    """
    found = []
    for rate in rates:
        network = Network((Level(None, _message(rate)),))
        trainings = {name: _training(name, network) for name in MODELS}
        for count in ranks:
            by_model = _steps(trainings, count, rate)
            for name, seconds in by_model.items():
                found.append(Measured(name, rate, seconds, predict(trainings[name], count)))
        report(f"links of {format_rate(parse_rate(rate))} done")
    return found


def _training(name: str, network: Network) -> Training:
    """A batch of one image, which takes as long as is waited."""
    return Training(
        model(name),
        images_per_s=1 / MODELS[name],
        batch=1,
        network=network,
        bucket_bytes=BUCKET * SHRUNK,
        gradient_share=SHRUNK,
    )


def _message(rate: str) -> Cost:
    """α and β between two ranks; the largest message takes 80 ms."""
    sizes = (4, 1024, parse_rate(rate) // 1000, parse_rate(rate) // 100)
    evidence = launch(_ping_pong, 2, inputs=[sizes] * 2, link=rate, timeout=60.0)
    check_launch(evidence, "bench predict")
    fitted = fit(sizes, evidence.values[0])
    return Cost(max(fitted.alpha, 0.0), fitted.beta)


def _ping_pong(sizes: Sequence[int]) -> list[float]:
    return ping_pong(sizes, repeats=8)


def _steps(trainings: dict[str, Training], ranks: int, rate: str) -> dict[str, float]:
    work = [
        {"compute": training.compute, "buckets": [list(one) for one in buckets(training)]}
        for training in trainings.values()
    ]
    evidence: Evidence = launch(_on_rank, ranks, inputs=[work] * ranks, link=rate, timeout=120.0)
    check_launch(evidence, "bench predict")
    seconds = {}
    for number, name in enumerate(trainings):
        by_step = zip(*(rank[number][1:] for rank in evidence.values), strict=True)
        seconds[name] = statistics.median(max(step) for step in by_step)
    return seconds


def _on_rank(work: list[dict]) -> list[list[float]]:
    """Seconds of each step of each model: wait until a bucket is ready, send it, go on waiting."""
    import time

    import torch
    import torch.distributed as dist

    taken = []
    for one in work:
        gradients = [torch.zeros(max(1, round(nbytes / 4))) for _, nbytes in one["buckets"]]
        taken.append([])
        for _ in range(STEPS):
            dist.barrier()
            began = time.perf_counter()
            sent = []
            for (ready, _), gradient in zip(one["buckets"], gradients, strict=True):
                time.sleep(max(0.0, began + ready - time.perf_counter()))
                sent.append(dist.all_reduce(gradient, async_op=True))
            time.sleep(max(0.0, began + one["compute"] - time.perf_counter()))
            for handle in sent:
                handle.wait()
            taken[-1].append(time.perf_counter() - began)
    return taken
