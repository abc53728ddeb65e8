"""`./hpml copy`: notebooks, exercises and job scripts of one's own, where many share a course."""

from pathlib import Path
from typing import Annotated

import typer


def copy(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new one; or a copy.")],
) -> None:
    """Make a copy of the course that is yours, of an installation that many share.

    It has notebooks, exercises and job scripts; the library and the environment stay where they
    are. Of a folder that is such a copy already, what it lacks is added, and nothing is changed.
    """
    from hpml.course import own_copy

    new = own_copy.make(folder)
    typer.echo(f"{folder}: {new} files are yours. Go on there: cd {folder} && ./hpml lab")
