"""`./hpml bench NAME`: measure, print a table of ratios with their conditions, write it as JSON.

Benchmarks of the grader are in bench_grading_command.py.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import UserError

if TYPE_CHECKING:
    from hpml.bench.predict import Predicted
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
    threads: Annotated[int, typer.Option(min=1, help="Threads of a full run.")] = 2,
    backends: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Compare these on 2 ranks instead: ddp,horovod."),
    ] = None,
) -> None:
    """Time and accuracy of a full training run; images/s by ranks and threads, or by back end."""
    from hpml.bench import train

    if backends is not None:
        give(train.compare(data, backends.split(","), rounds), json)
    else:
        give(train.bench(data, rounds=rounds, seeds=range(seeds), threads=threads), json)


@app.command("check")
def bench_check(
    exercises: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]…", help="Exercises; default: all.")
    ] = None,
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count.")] = 3,
) -> None:
    """How long a verdict takes, beside the same ranks under torchrun."""
    from hpml.bench.check import bench as measure

    give(measure(rounds, exercises or ()), json)


@app.command("network")
def bench_network(
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count.")] = 5,
) -> None:
    """What emulated links let through, and what a launch with a network costs."""
    from hpml.bench.network import bench as measure

    give(measure(rounds), json)


@app.command("allreduce")
def bench_allreduce(
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, each over all cases.")] = 3,
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="LINK", help="As of ./hpml run; several times for several."),
    ] = None,
    columns: Annotated[
        bool,
        typer.Option(
            "--columns",
            help="Instead, as nccl-tests: bytes, time, algorithm and bus bandwidth, from 4 B on; "
            "2 ranks of this machine, or over --link.",
        ),
    ] = False,
) -> None:
    """All-reduce by each algorithm, beside Gloo's and MPI's, against the bound and the model."""
    if columns:
        from hpml.bench import allreduce_columns

        if json:
            raise UserError("--columns prints text: leave --json out")
        allreduce_columns.bench(link or ())
        return
    from hpml.bench.allreduce import bench as measure

    give(measure(rounds, link or ("1gbit",)), json)


@app.command("fusion")
def bench_fusion(
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count.")] = 5,
) -> None:
    """Horovod's tensor fusion: 200 small tensors with it and without, over slow links."""
    from hpml.bench.fusion import bench as measure

    give(measure(rounds), json)


@app.command("io")
def bench_io(
    data: Annotated[
        str | None, typer.Option(help="Folder with CIFAR-10; default: what ./hpml train takes.")
    ] = None,
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, each over everything.")] = 3,
    images: Annotated[int, typer.Option(min=10, help="Images in each format.")] = 10_000,
) -> None:
    """Six formats of the same images, cold and warm, beside a plain read; and loaders."""
    from hpml.bench.io import bench as measure

    give(measure(data, rounds, images), json)


@app.command("shard")
def bench_shard(
    json: JSON = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, each over all ways.")] = 3,
    ranks: Annotated[str, typer.Option(metavar="N,N", help="Numbers of ranks.")] = "2,4",
) -> None:
    """A transformer split in each way: images/s and peak bytes; and a pipeline's bubble."""
    from hpml.bench.shard import bench as measure

    try:
        world_sizes = [int(number) for number in ranks.split(",")]
    except ValueError:
        raise UserError(f"--ranks is {ranks!r}, expected a form like 2,4") from None
    if not set(world_sizes) <= {2, 4}:
        raise UserError(f"--ranks is {ranks}, expected 2, 4 or both")
    give(measure(rounds, world_sizes), json)


@app.command("predict")
def bench_predict(
    json: JSON = None,
) -> None:
    """Scaling predicted: every row of the published tables, beside what was published."""
    from hpml.bench.predict import bench as measure

    give(measure(), json)


def give(table: "Table | Predicted", json: Path | None) -> None:
    table.show()
    if json:
        table.write(json)
