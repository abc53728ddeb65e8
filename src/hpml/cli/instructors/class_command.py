"""./hpml class: where a class is now, for the instructor."""

import contextlib
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import DONE, UserError

if TYPE_CHECKING:
    from hpml.course.instructors.class_now import Now

EVERY = 5.0  # seconds between two looks


def class_(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            envvar="HPML_CLASS",
            show_envvar=False,
            help="What HPML_CLASS names for the learners; by default what it names here.",
        ),
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Keep a page there that renews itself.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page, to this machine alone.")
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="With --serve; default: one that is free.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
) -> int:
    """Where a class is now: what most people are on and what to say, who has been on one claim for
    long, the core path beside the run sheet's clock, and who is where.

    Learners who have set HPML_CLASS=FOLDER, a folder that all of them can write to, leave a line
    there with each check: no code, and no name but what they give in HPML_NAME. It is what their
    own machines reported, and no mark is made of it.

    In a terminal it looks again every few seconds until Ctrl-C, and so it does with --html and
    --serve; else it looks once. docs/class.md says how to set it up.
    """
    from rich.console import Console
    from rich.live import Live

    from hpml.cli.instructors.class_screen import screen
    from hpml.course import schedule
    from hpml.course.instructors import class_folder, class_now, class_page, class_server

    if port is not None and not serve:
        raise UserError(f"--port {port} is for --serve: add it, or leave the port out")
    if once and serve:
        raise UserError("--once --serve: a page is served until Ctrl-C: leave one of them out")
    course, console = schedule.load(), Console()
    class_folder.read(folder, course, _here())  # complained of at once, the lectures take a second
    planned, saying = class_now.plan(course), class_now.sayings(course)

    def look() -> "Now":
        now = _here()
        recorded = class_folder.read(folder, course, now)
        return class_now.look(course, planned, recorded, saying, now)

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(class_server.serving(port or 0)) if serve else None
        pages = [str(each) for each in (html, server and server.address) if each]

        def renew(now: "Now") -> None:
            page = class_page.write(course, now, EVERY) if pages else ""
            if server:
                server.page = page.encode()
            if html:
                _keep(html, page)

        now = look()
        renew(now)
        if once or not (console.is_terminal or pages):
            console.print(screen(now, pages))
            return DONE
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        if console.is_terminal:
            live = Live(screen(now, pages), console=console, screen=True, auto_refresh=False)
            stack.enter_context(live)
            show = live.update
        else:
            typer.echo(f"Every {EVERY:.0f} s anew, until Ctrl-C: {' and '.join(pages)}")
            show = None
        while True:
            time.sleep(EVERY)
            try:  # a server of files that is away for a while does not end the day's board
                now = look()
            except UserError as error:
                now = replace(now, fault=str(error))
            try:
                renew(now)
            except UserError as error:
                now = replace(now, fault=str(error))
            if show:
                show(screen(now, pages), refresh=True)
    return DONE


def _here() -> datetime:
    """The time of the room: the run sheet's clock is a clock on its wall."""
    return datetime.now().astimezone()


def _keep(path: Path, page: str) -> None:
    from hpml.files import atomic

    try:
        atomic.write_text(path, page)
    except OSError as error:
        raise UserError(f"--html {path}: {error.strerror}: name a file to write to") from None
