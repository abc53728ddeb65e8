"""`./hpml record`: what a GPU shows, measured and kept, from this process."""

from typing import Annotated

import typer


def record(
    options: Annotated[list[str] | None, typer.Argument(help="See ./hpml record --help.")] = None,
) -> int:
    """Measure what this machine shows, a GPU above all. The same as python -m hpml.record."""
    from hpml.record.command import main

    return main(options or [], program="./hpml record")
