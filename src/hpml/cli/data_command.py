"""`./hpml data`: get the images, or report where they are and whether they are complete."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def data(
    dir: Annotated[
        Path | None,
        typer.Option(
            "--data",
            "--dir",
            help="Folder for the images; else HPML_DATA, else the data folder in HPML_HOME.",
        ),
    ] = None,
    layout: Annotated[
        Literal["binary", "python"] | None,
        typer.Option(help="Which official layout to fetch: what is there already, else binary."),
    ] = None,
    verify_only: Annotated[
        bool, typer.Option("--verify", help="Fetch nothing; check the images that are there.")
    ] = False,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Fetch nothing; make the SYNTHETIC images.")
    ] = False,
) -> None:
    """Download CIFAR-10 from its official address and verify it (170 MB).

    A download that broke off resumes. Images that are complete stay as they are; damaged ones are
    replaced. An archive that was put into the folder by hand is used. Without any images, the
    course uses generated ones and marks their numbers SYNTHETIC.
    """
    from hpml.data import sources
    from hpml.data import synthetic as generated
    from hpml.data.cifar10 import SYNTHETIC
    from hpml.errors import UserError

    if synthetic:
        _report(generated.ensure())
        return
    if verify_only:
        found = sources.find(dir)
        if found is None:
            raise UserError(
                "data: no images to verify: run ./hpml data, or name a folder by --data"
            )
        _report(found)
        return
    folder = sources.download_folder(dir)
    found = sources.find_in(folder, layout)
    if found is not None:
        try:
            _report(found)
            return
        except UserError as error:
            if (found / SYNTHETIC).exists():
                raise
            typer.echo(f"{error}".rpartition(": ")[0] + ": fetching CIFAR-10 anew")
            layout = "binary" if sources.is_binary(found) else "python"
    _report(_fetch(folder, layout or "binary", found))


def _fetch(folder: Path, layout: str, into: Path | None) -> Path:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from hpml.data.download import ARCHIVES, download

    archive = ARCHIVES[layout]
    columns = TextColumn(archive.name), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(archive.name, total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None)

        return download(folder, archive, into=into, progress=progress)


def _report(folder: Path) -> None:
    from hpml.data import sources

    summed = sources.verify(folder)
    images = sources.load(folder)
    typer.echo(images.describe())
    typer.echo(
        f"{len(images.train)} training images, {len(images.test)} test images; "
        "sizes, labels, counts and class names are right; "
        + ("md5 of every file is right" if summed else "no md5 sums to compare with")
    )
