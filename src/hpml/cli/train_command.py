"""`./hpml train`: the one training script, in this process."""

from typing import Annotated

import typer


def train(
    options: Annotated[
        list[str] | None, typer.Argument(help="Of the training script: see ./hpml train --help.")
    ] = None,
) -> int:
    """Train the network on CIFAR-10. The same as python -m hpml.train."""
    from hpml.train import main

    return main(options or [], program="./hpml train")
