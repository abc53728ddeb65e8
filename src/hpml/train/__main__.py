"""The training script's command line."""

import signal
import sys
from collections.abc import Sequence

from hpml import distributed_environment
from hpml.errors import DONE, USAGE, UserError
from hpml.train.config import parse
from hpml.train.leaving import leave


def main(arguments: Sequence[str] | None = None, program: str = "hpml train") -> int:
    """Train with these options; returns the exit code. Raises UserError for bad usage."""
    config = parse(arguments, program)
    from hpml.train.run import train  # with torch: more than a second, and --help needs none

    history = train(config)
    first = distributed_environment.read().rank == 0
    if first and history.epochs:
        last = history.epochs[-1]
        print(
            f"{history.data}\n"
            f"{history.world_size} rank{'s' * (history.world_size > 1)} × {history.threads} "
            f"thread{'s' * (history.threads > 1)}, {history.device}, {history.precision}: "
            f"test accuracy {last.test_accuracy:.2%} after {len(history.epochs)} epochs, "
            f"{history.seconds:.0f} s of training, {history.images_per_second:.0f} images/s"
        )
    if first and history.stopped:
        done, all_ = len(history.epochs), config.epochs
        saved = (
            f"saved in {config.checkpoint}, --resume carries on" if config.checkpoint else "lost"
        )
        print(f"stopped in epoch {done + 1} of {all_}: {saved}")
    if first and config.out:
        print(f"history: {config.out}")
    # As a shell reports a process that SIGTERM ended: a scheduler sees that it is unfinished.
    return 128 + signal.SIGTERM if history.stopped else DONE


if __name__ == "__main__":
    try:
        code = main(program="python -m hpml.train")
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(USAGE)
    leave(code)
