"""./hpml race: seconds to an accuracy, with each improvement of the day a switch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpml.errors import DONE, FAILED, UserError

if TYPE_CHECKING:
    from hpml.train.race.goals import Goal
    from hpml.train.race.switches import Switches
    from hpml.train.race.tries import Try

_TURN, _RACE = "Switches", "The race"


def race(
    loader: Annotated[
        str | None,
        typer.Option(
            metavar="images|batch|ahead",
            help="Make ready one image at a time, a whole batch, or the next one in a thread.",
            rich_help_panel=_TURN,
        ),
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="contiguous|channels_last",
            help="Of images and filters in memory.",
            rich_help_panel=_TURN,
        ),
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            metavar="fp32|bf16", help="Of convolutions and products.", rich_help_panel=_TURN
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of each rank.", rich_help_panel=_TURN)
    ] = None,
    ranks: Annotated[
        int | None, typer.Option(help="They share each batch.", rich_help_panel=_TURN)
    ] = None,
    bucket_mib: Annotated[
        float | None,
        typer.Option(
            help="MiB of gradients in a message; 0 sends each alone.", rich_help_panel=_TURN
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Images of a step, on all ranks.", rich_help_panel=_TURN)
    ] = None,
    lr: Annotated[
        float | None, typer.Option(help="Highest learning rate.", rich_help_panel=_TURN)
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            help="At most; the learning rate falls until the last.", rich_help_panel=_TURN
        ),
    ] = None,
    compile_: Annotated[
        bool | None,
        typer.Option("--compile/--no-compile", help="Compile the network.", rich_help_panel=_TURN),
    ] = None,
    from_best: Annotated[
        bool,
        typer.Option(
            "--from-best", help="Begin with your best try, not with all off.", rich_help_panel=_RACE
        ),
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="No new try: table, chart, board.", rich_help_panel=_RACE)
    ] = False,
    goal: Annotated[
        str | None,
        typer.Option(
            metavar="laptop|full",
            help="42 %, small network; or 90 %, all of it. Default: full with a GPU.",
            rich_help_panel=_RACE,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Folder with CIFAR-10, else HPML_DATA.", rich_help_panel=_RACE
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png", help="Else race/chart.png in HPML_HOME.", rich_help_panel=_RACE
        ),
    ] = None,
    board: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="HPML_BOARD",
            show_envvar=False,
            help="A folder that the class shares, else HPML_BOARD.",
            rich_help_panel=_RACE,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="On the board; default: your user name.", rich_help_panel=_RACE),
    ] = None,
) -> int:
    """Train until an accuracy is reached, and report the seconds it took.

    Without options everything is off: that is the try to beat. Turn one
    switch, and see on the chart what it moved; then give --from-best, and
    turn the next. A try takes less than a minute on a laptop, and is kept
    in race/tries.jsonl in HPML_HOME.

    Seconds count from the first batch read to the end of the test that
    reached the accuracy, with all tests, and compiling. Starting processes
    and making the network are not counted.
    """
    from hpml.train.race import tries
    from hpml.train.race.goals import goal_named
    from hpml.train.race.start import check_ranks, gpus, run_try
    from hpml.train.race.switches import option_of

    given: dict[str, Any] = {
        "loader": loader,
        "layout": layout,
        "precision": precision,
        "threads": threads,
        "ranks": ranks,
        "bucket_mib": bucket_mib,
        "batch": batch,
        "lr": lr,
        "epochs": epochs,
        "compile": compile_,
    }
    given = {key: value for key, value in given.items() if value is not None}
    wanted = goal_named(goal or ("full" if gpus() else "laptop"))
    if board is not None and not board.is_dir():
        raise UserError(f"--board {board} is not a folder: make it first, for all of the class")
    if show:
        if given or from_best:
            option = option_of(next(iter(given), "from_best"))
            raise UserError(f"--show makes no new try: leave out {option}, or --show")
        return _show(wanted, None, chart, board, name)
    switches = _begin(wanted, given, from_best)
    check_ranks(switches)
    try:
        one = run_try(wanted, switches, data, _follow)
    except KeyboardInterrupt:
        typer.echo("The try is recorded as interrupted.")
        raise
    _report(one, wanted)
    _show(wanted, one, chart, board, name)
    return FAILED if one.status == tries.FAILED else DONE


def _begin(goal: "Goal", given: dict[str, Any], from_best: bool) -> "Switches":
    """The settings of the try, which are printed."""
    from dataclasses import replace

    from hpml.train.race import tries
    from hpml.train.race.switches import in_words, turned

    settings, origin = goal.off, "all off"
    if from_best:
        kept, _ = tries.read()
        quickest = tries.best(tries.comparable(kept, goal, None))
        if quickest is None:
            raise UserError(
                f"--from-best: no try has reached {goal.in_words()} yet: leave it out for the first"
            )
        settings, origin = quickest.switches, "your best try"
    switches = replace(settings, **given)
    words = in_words(turned(switches, settings))
    typer.echo(
        f"Goal {goal.name}: {goal.in_words()}. Settings: {origin}{words and ', but '}{words}"
    )
    return switches


def _follow(one: "Try") -> None:
    """A line for each test."""
    from hpml.train.race.tries import REACHED

    if not one.points:
        kind = "SYNTHETIC images (generated, not CIFAR-10)" if one.synthetic else "CIFAR-10"
        typer.echo(f"{kind}, on {one.device}")
        return
    last = one.points[-1]
    mark = "  reached" if one.status == REACHED else ""
    typer.echo(f"{last.seconds:8.1f} s {last.images:>10,} images {last.accuracy:>8.1%}{mark}")


def _report(one: "Try", goal: "Goal") -> None:
    """What came of the try, beside the best of those before it."""
    from hpml.train.race import table, tries

    if one.status != tries.REACHED:
        typer.echo(f"This try: {table.outcome(one)}\n")
        return
    kept, _ = tries.read()
    others = [t for t in tries.comparable(kept, goal, one.synthetic) if t.id != one.id]
    if quickest := tries.best(others):
        typer.echo(f"This try is {table.beside(one, quickest)}.")
    typer.echo("")


def _show(
    goal: "Goal", one: "Try | None", chart: Path | None, board: Path | None, name: str | None
) -> int:
    """The table, the chart and the board, of tries on images of the kind of `one`."""
    from hpml.train.race import board as boards
    from hpml.train.race import table, tries
    from hpml.train.race.picture import race_picture

    kept, skipped = tries.read()
    shown = tries.comparable(kept, goal, one.synthetic if one else None)
    if not shown:
        typer.echo(f"No try for goal {goal.name} yet: ./hpml race makes one.")
    else:
        typer.echo(table.of_tries(shown, goal))
        typer.echo(table.counted())
        out = chart or tries.file().with_name("chart.png")
        try:
            race_picture(shown, goal).savefig(out, dpi=160)
        except (OSError, ValueError) as error:  # a folder that is not there; a suffix unknown
            raise UserError(f"--chart {out}: {error}") from None
        typer.echo(f"Chart: {out}")
    if skipped:
        typer.echo(f"{tries.file()}: {skipped} lines are not tries, and were skipped")
    if board is not None:
        synthetic = any(each.synthetic for each in shown)
        boards.publish(board, name or _user(), kept)
        entries, unreadable = boards.read(board, goal, synthetic)
        typer.echo("\n" + table.of_board(entries, unreadable, goal))
    return DONE


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "learner"
