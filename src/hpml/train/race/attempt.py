"""One try on one rank: train until the accuracy is reached, and report seconds as they pass.

    python -m hpml.train.race.attempt ACCURACY OPTIONS…
    torchrun --nproc-per-node 2 -m hpml.train.race.attempt ACCURACY OPTIONS…

OPTIONS are those of the training script. Rank 0 prints a line of JSON for each event. Seconds are
those since all ranks were about to read their first batch. Tests are counted, and compiling, which
happens in the first step; starting processes and making the network are not.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hpml import distributed_environment
from hpml.errors import DONE, FAILED, USAGE, UserError
from hpml.ranks.processes import die_with_parent
from hpml.train.config import TrainConfig, parse
from hpml.train.leaving import leave
from hpml.train.observer import Observer, Observers
from hpml.train.run import prepared

EVENT = "race"  # the key of an event's name: other lines on the output are somebody else's


class FirstStep(Observer):
    """When the first step was over; on a GPU, when all of it had been asked for."""

    def __init__(self) -> None:
        self.ended: float | None = None

    def step(self, images: int) -> None:
        if self.ended is None:
            self.ended = time.perf_counter()


def attempt(config: TrainConfig, accuracy: float, report: Callable[[dict[str, Any]], None]) -> None:
    """Train with `config`, testing after each epoch, until the test accuracy is `accuracy`.

    `report` is called on every rank: {"race": "began", …}, then after each test {"race": "point",
    "images", "seconds", "accuracy", "first_step"}. Raises UserError as `train` does.
    """
    with prepared(config) as (run, asked):
        cuda = run.device.type == "cuda"
        report(
            {
                EVENT: "began",
                "synthetic": run.data.synthetic,
                "data": run.data.describe(),
                "device": torch.cuda.get_device_name() if cuda else "cpu",
            }
        )
        first = FirstStep()
        run.backend.sum(torch.zeros(1, device=run.device))  # all ranks are here
        began = time.perf_counter()
        with Observers(first) as observers:
            while run.position.epoch < config.epochs:
                run.train_epoch(asked, observers)
                reached = run.position.epochs[-1].test_accuracy
                report(
                    {
                        EVENT: "point",
                        "images": run.position.epoch * run.images,
                        "seconds": time.perf_counter() - began,
                        "accuracy": reached,
                        "first_step": first.ended - began,
                    }
                )
                if reached >= accuracy:  # the same number on all ranks: all of them stop
                    return


def main(arguments: Sequence[str]) -> int:
    """A try with these arguments; the exit code. What went wrong is an event, too."""
    die_with_parent()
    try:
        rank = distributed_environment.read().rank
        config = parse(arguments[1:], "hpml race")
        attempt(config, float(arguments[0]), _print if rank == 0 else lambda event: None)
        return DONE
    except UserError as error:
        _print({EVENT: "failed", "why": str(error)})
        return USAGE
    except Exception as error:
        traceback.print_exc()
        _print({EVENT: "failed", "why": f"{type(error).__name__}: {error}"})
        return FAILED


def _print(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
