"""./hpml tensorboard: TensorBoard with the profiler's views, with no internet."""

from pathlib import Path
from typing import Annotated

import typer


def tensorboard(
    logdir: Annotated[
        str | None,
        typer.Argument(metavar="[LOGDIR]", help="Where runs were logged to; default: .hpml/logs."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Its port, or 0 for any; default: the first free one from 6006."
        ),
    ] = None,
    path_prefix: Annotated[
        str, typer.Option(metavar="PATH", help="The path below which a proxy shows it.")
    ] = "",
    pictures: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write each view as a PNG by Chromium, and end."),
    ] = None,
) -> None:
    """Show what is in a log folder: profiles of torch.profiler, scalars, images, histograms.

    Prints the address to open in a browser; Ctrl-C ends it. From a cluster, or any other machine:
    ssh -L 6006:localhost:6006 MACHINE, and the same address here.
    """
    import signal
    import sys

    from hpml.paths import home
    from hpml.tensorboard import server, views

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = Path(logdir).expanduser() if logdir else home() / "logs"
    chromium = _chromium() if pictures is not None else None
    address = server.start(folder, host, port, path_prefix)
    there = ", ".join(f"{count} {what}" for what, count in server.found(folder).items() if count)
    print(f"{folder}: {there}: {address} (Ctrl-C ends it)", flush=True)
    try:
        if chromium is not None and pictures is not None:
            for path in views.take_pictures(address, chromium, Path(pictures).expanduser()):
                print(path)
        while chromium is None:
            signal.pause()
    finally:
        server.stop()


def _chromium() -> str:
    import shutil

    from hpml.errors import UserError

    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        raise UserError("--pictures: there is no chromium here: apt install chromium")
    return found
