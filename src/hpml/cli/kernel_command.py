"""./hpml kernel: the course in a JupyterLab that somebody else has started."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def kernel() -> None:
    """The course's kernel for JupyterHub, Open OnDemand or VS Code; ./hpml lab needs none."""


@app.command()
def install(
    user: Annotated[
        bool, typer.Option("--user", help="For you alone, and this folder. The default.")
    ] = False,
    prefix: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For all whose JupyterLab looks in DIR/share/jupyter."),
    ] = None,
) -> None:
    """Install the kernel. In a notebook, choose "HPML day 2" as its kernel."""
    from hpml.course import hub_kernel
    from hpml.errors import UserError

    if user and prefix:
        raise UserError("--user --prefix: give one of them")
    where = hub_kernel.install(prefix.expanduser().absolute() if prefix else None)
    typer.echo(f"{where}: choose {hub_kernel.DISPLAYED!r} as a notebook's kernel")
