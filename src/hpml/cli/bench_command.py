"""`./hpml bench NAME`: measure, print a table of ratios with their conditions, write it as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import FAILED

if TYPE_CHECKING:
    from hpml.bench.table import Table

app = typer.Typer(no_args_is_help=True)

JSON = Annotated[Path | None, typer.Option("--json", help="Also write the table to this file.")]


@app.callback()
def bench() -> None:
    """Benchmarks, as ratios measured side by side."""


@app.command("train")
def bench_train(
    data: Annotated[
        str | None, typer.Option(help="Folder with CIFAR-10; default: what ./hpml train takes.")
    ] = None,
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of short runs.")] = 3,
    seeds: Annotated[
        int, typer.Option(min=0, help="Full runs, each with a seed of its own; 0 leaves them out.")
    ] = 1,
    backends: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Compare these on 2 ranks instead: ddp,horovod."),
    ] = None,
) -> None:
    """Time and accuracy of a full training run; images/s by ranks and threads, or by back end."""
    from hpml.bench import train

    if backends is not None:
        _give(train.compare(data, backends.split(","), rounds), json)
    else:
        _give(train.bench(data, rounds=rounds, seeds=range(seeds)), json)


@app.command("check")
def bench_check(
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count.")] = 5,
) -> None:
    """How long a verdict takes, beside the same ranks under torchrun."""
    from hpml.bench.check import bench as measure

    _give(measure(rounds), json)


@app.command("network")
def bench_network(
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count.")] = 5,
) -> None:
    """What emulated links let through, and what a launch with a network costs."""
    from hpml.bench.network import bench as measure

    _give(measure(rounds), json)


@app.command("allreduce")
def bench_allreduce(
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, each over all cases.")] = 3,
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="LINK", help="As of ./hpml run; several times for several."),
    ] = None,
) -> None:
    """All-reduce by each algorithm, beside Gloo's and MPI's, against the bound and the model."""
    from hpml.bench.allreduce import bench as measure

    _give(measure(rounds, link or ("1gbit",)), json)


@app.command("fusion")
def bench_fusion(
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count.")] = 5,
) -> None:
    """Horovod's tensor fusion: 200 small tensors with it and without, over slow links."""
    from hpml.bench.fusion import bench as measure

    _give(measure(rounds), json)


@app.command("attacks")
def bench_attacks(
    json: JSON = None,
    jobs: Annotated[int, typer.Option(min=1, help="Submissions at a time.")] = 2,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="This attack only.")
    ] = None,
) -> None:
    """Hostile submissions among honest ones: points given, others harmed, honest marked down."""
    from hpml.bench.attacks import bench as measure

    table, good = measure(jobs, names=only or ())
    _give(table, json)
    if not good:
        raise typer.Exit(FAILED)


@app.command("grade")
def bench_grade(
    json: JSON = None,
    people: Annotated[
        int | None, typer.Option(min=1, help="Full submissions; default: three for each core.")
    ] = None,
    by_nbgrader: Annotated[
        int, typer.Option("--nbgrader", min=1, help="As many of them for nbgrader: minutes each.")
    ] = 1,
    class_size: Annotated[
        int, typer.Option("--class", min=0, help="People in the mixed class; 0 leaves it out.")
    ] = 200,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Submissions of this exercise only.")
    ] = None,
) -> None:
    """Submissions per minute beside nbgrader autograde; a class, and the memory it takes."""
    from hpml.bench.grade import bench as measure

    _give(measure(people, by_nbgrader, class_size, only or ()), json)


def _give(table: "Table", json: Path | None) -> None:
    table.show()
    if json:
        table.write(json)
