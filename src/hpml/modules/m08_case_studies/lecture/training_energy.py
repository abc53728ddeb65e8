"""Joules for each image of training: with one thread, with two, and on a GPU."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn.functional import cross_entropy

from hpml.measure.clock import with_threads
from hpml.models import ResidualNetwork
from hpml.modules.m08_case_studies.lecture.energy import Counter, Spent, spent

BATCH = 64
WIDTHS = (16, 32, 64)


@dataclass(frozen=True)
class Trained:
    """What training on so many images took."""

    images: int
    spent: Spent

    @property
    def millijoules(self) -> float:
        """For one image."""
        return 1e3 * self.spent.joules / self.images


# By way ("1 thread"): each round's
Rounds = Mapping[str, Sequence[Trained]]


def by_threads(
    counters: Sequence[Counter], threads: Sequence[int] = (1, 2), rounds: int = 3, steps: int = 25
) -> dict[str, list[Trained]]:
    """`rounds` times so many training steps with each number of threads.

    In turn, so that what else the machine does is in all of them. Raises UserError as `spent` does.
    """
    train = _training("cpu")
    train(1)
    found: dict[str, list[Trained]] = {_name(number): [] for number in threads}
    for _ in range(rounds):
        for number in threads:
            with with_threads(number):
                taken = spent(lambda: train(steps), counters)
            found[_name(number)].append(Trained(steps * BATCH, taken))
    return found


def on_gpu(
    counters: Sequence[Counter], rounds: int = 3, steps: int = 400
) -> dict[str, list[Trained]]:
    """The same on the first GPU, with more steps, since they are shorter."""
    train = _training("cuda")
    train(20)

    def work() -> None:
        train(steps)
        torch.cuda.synchronize()

    return {"GPU": [Trained(steps * BATCH, spent(work, counters[:1])) for _ in range(rounds)]}


def table(found: Rounds) -> str:
    """A line for each way: all its rounds together."""
    lines = [f"{'':10}{'images/s':>10}{'watts':>8}{'mJ for an image':>17}"]
    for way, rounds in found.items():
        images = sum(one.images for one in rounds)
        seconds = sum(one.spent.seconds for one in rounds)
        joules = sum(one.spent.joules for one in rounds)
        columns = f"{images / seconds:10,.0f}{joules / seconds:8.1f}{1e3 * joules / images:17.2f}"
        lines.append(f"{way:10}{columns}")
    return "\n".join(lines)


class Way(NamedTuple):
    """Mean watts, and the millijoules for an image in its best round and in its worst."""

    watts: float
    least: float
    most: float


class FirstAndLast(NamedTuple):
    """The first way and the last, by name; held: all rounds of the last took
    `less` energy for an image than all of the first, or all took more."""

    held: bool
    less: bool
    ways: Mapping[str, Way]


def first_and_last(found: Rounds) -> FirstAndLast:
    """Whether the last way takes less energy for an image than the first, or more.

    It does one or the other where all its rounds do.
    """
    first, *_, last = found
    ways = {}
    for way in (first, last):
        each = [one.millijoules for one in found[way]]
        watts = sum(one.spent.watts for one in found[way]) / len(each)
        ways[way] = Way(watts, min(each), max(each))
    less = ways[last].most < ways[first].least
    return FirstAndLast(less or ways[last].least > ways[first].most, less, ways)


def _name(threads: int) -> str:
    return f"{threads} thread" + "s" * (threads > 1)


def _training(device: str) -> Callable[[int], None]:
    """Does so many steps of a small residual network, on images that lie in memory."""
    torch.manual_seed(0)
    model = ResidualNetwork(WIDTHS).to(device)
    optimizer = torch.optim.SGD(
        [parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.01
    )
    images = torch.randn(BATCH, 3, 32, 32, device=device)
    labels = torch.randint(0, 10, (BATCH,), device=device)

    def train(steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            cross_entropy(model(images), labels).backward()
            optimizer.step()

    return train
