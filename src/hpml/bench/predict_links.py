"""The predictor against measured steps: ranks that wait in place of computing, on emulated links.

A rank that waits needs no core, so four of them work side by side on two cores as if each had a
machine of its own; what they send goes over links that the kernel holds to their rate. Nothing is
fitted: α and β are those of a ping-pong between two ranks. Times are the quickest of a few, because
other work on the machine only adds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpml.bench.network import check_launch
from hpml.network.link import format_rate, parse_rate
from hpml.predict.collectives import Cost
from hpml.predict.model_layers import model
from hpml.predict.scaling import BUCKET, Level, Network, Prediction, Training, buckets, predict
from hpml.ranks import Evidence, launch

RATES = ("100mbit", "1gbit", "10gbit")
RANKS = (1, 2, 3, 4)
MODELS = {"resnet50": 0.2, "vgg16": 0.4}  # seconds of compute in a step, which are waited
# Of their bytes, buckets too: a step of VGG-16 at 100 Mbit/s would last a minute.
SHRUNK = {"100mbit": 1 / 40, "1gbit": 1 / 10, "10gbit": 1 / 10}
STEPS = 6  # of which the first, which makes connections, does not count
SHOWS = 0.05  # of a step: with more than that exposed, there is something to foretell


@dataclass(frozen=True)
class Measured:
    """Seconds of a step (the slowest rank's, of the quickest step) beside what was foretold."""

    model: str
    rate: str
    seconds: float
    foretold: Prediction

    @property
    def error(self) -> float:
        """Foretold over measured, less 1."""
        return self.foretold.step.seconds / self.seconds - 1

    @property
    def shows(self) -> bool:
        """Is more than SHOWS of the step communication, measured or foretold?"""
        longest = max(self.seconds, self.foretold.step.seconds)
        return longest > (1 + SHOWS) * self.foretold.step.compute

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
        trainings = {name: _training(name, network, SHRUNK[rate]) for name in MODELS}
        for count in ranks:
            by_model = _steps(trainings, count, rate)
            for name, seconds in by_model.items():
                found.append(Measured(name, rate, seconds, predict(trainings[name], count)))
        report(f"links of {format_rate(parse_rate(rate))} done")
    return found


def _training(name: str, network: Network, shrunk: float) -> Training:
    """A batch of one image, which takes as long as is waited."""
    return Training(
        model(name),
        images_per_s=1 / MODELS[name],
        batch=1,
        network=network,
        bucket_bytes=BUCKET * shrunk,
        gradient_share=shrunk,
    )


def _message(rate: str) -> Cost:
    """α of the smallest message between two ranks, β of one that takes 80 ms at the link's rate.

    The quickest of many, and no line through many sizes: on a busy machine a small message that
    waits for a core would bend it.
    """
    large = parse_rate(rate) // 100
    work = [[4, 200], [large, 8]]  # bytes, repeats
    evidence = launch(_round_trips, 2, inputs=[work] * 2, link=rate, timeout=60.0)
    check_launch(evidence, "bench predict")
    there_and_back, and_large = evidence.values[0]
    alpha = there_and_back / 2
    return Cost(alpha, max(0.0, and_large - 2 * alpha) / large)


def _round_trips(work: list[list[int]]) -> list[float]:
    """Seconds of the quickest of some messages of so many bytes, each answered with four."""
    import time

    import torch
    import torch.distributed as dist

    rank, answer, taken = dist.get_rank(), torch.zeros(1), []
    for nbytes, repeats in work:
        message = torch.zeros(nbytes // 4)
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            for sender, tensor in ((0, message), (1, answer)):
                if rank == sender:
                    dist.send(tensor, 1 - rank)
                else:
                    dist.recv(tensor, 1 - rank)
            seconds.append(time.perf_counter() - began)
        taken.append(min(seconds))
    return taken


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
        seconds[name] = min(max(step) for step in by_step)
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
