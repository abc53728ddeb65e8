"""./hpml predict: images/s on more ranks than there are, from a model, a GPU and a network."""

import math
from pathlib import Path
from typing import Annotated

import typer

from hpml.errors import DONE, UserError


def predict(
    model: Annotated[str, typer.Option(help="resnet50, vgg16, bert_base, …")] = "resnet50",
    gpu: Annotated[str, typer.Option(help="A processor of the published tables.")] = "v100",
    per_node: Annotated[int, typer.Option(min=1, help="Ranks of a node.")] = 8,
    network: Annotated[
        str, typer.Option(metavar="RATE", help="Of a node, to the others: 25gbit.")
    ] = "25gbit",
    ranks: Annotated[
        str, typer.Option(metavar="N-N", help="From how many ranks to how many; they double.")
    ] = "8-512",
    within: Annotated[
        str | None,
        typer.Option(metavar="LINK", help="Inside a node; default: NVLink if the GPU has it."),
    ] = None,
    images_per_s: Annotated[
        float | None, typer.Option(help="Of one rank; default: as published for the GPU.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Images of one rank; default: as published.")
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="ring, double-tree, hierarchical or naive.")
    ] = "ring",
    bucket_mib: Annotated[float, typer.Option(help="MiB of gradients in a message.")] = 25.0,
    overlap: Annotated[
        bool, typer.Option("--overlap/--no-overlap", help="Send while backward still runs.")
    ] = True,
    fp16: Annotated[bool, typer.Option("--fp16", help="Send gradients in 2 bytes each.")] = False,
    loader: Annotated[
        float | None, typer.Option(metavar="IMAGES/S", help="What one rank's loader can do.")
    ] = None,
    storage: Annotated[
        float | None, typer.Option(metavar="IMAGES/S", help="What all ranks can read together.")
    ] = None,
    measurements: Annotated[
        list[Path] | None,
        typer.Option(
            "--fit",
            metavar="FILE",
            help="Your own runs: a CSV with ranks and images_per_s, or what a job script left: "
            "history.json, all_reduce.csv. Several times for several.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Draw the curve into this file.")
    ] = None,
) -> int:
    """Predict images/s: a table over ranks, with its interval and where a step's time goes.

    Two constants, the share of the network's rate that is reached and how far ranks differ, are
    fitted on --fit; without it they are those of the published tables, and the interval is wide.
    """
    import rich
    import rich.box
    from rich.table import Table

    from hpml.predict.predict_run import Asked, beyond, predict_run, sizes

    wanted = sizes(ranks)
    run = predict_run(
        Asked(
            model=model,
            gpu=gpu,
            per_node=per_node,
            network=network,
            within=within,
            images_per_s=images_per_s,
            batch=batch,
            algorithm=algorithm,
            bucket_mib=bucket_mib,
            overlap=overlap,
            fp16=fp16,
            loader=math.inf if loader is None else loader,
            storage=math.inf if storage is None else storage,
        ),
        measurements or (),
    )
    fitted = run.fitted
    predicted = {count: fitted.predict(count) for count in wanted}
    parts = ["exposed", "straggling"]  # the share of compute is the efficiency
    if any(one.step.input for one in predicted.values()):
        parts.append("input")
    title = f"{model} on {gpu}, {per_node} a node, {network}"
    table = Table(
        title=title,
        title_justify="left",
        box=rich.box.SIMPLE,
        padding=(0, 1, 0, 0),  # all of it fits into 80 columns
        pad_edge=False,
    )
    for name in ("ranks", "images/s", "90 % interval", "efficiency", *parts):
        table.add_column(name, justify="right", no_wrap=True)
    for count, one in predicted.items():
        interval = fitted.interval(count)
        table.add_row(
            str(count),
            f"{one.images_per_s:,.0f}",
            f"{interval.low:,.0f} to {interval.high:,.0f}",
            f"{one.efficiency:.0%}",
            *(f"{one.step.shares[name]:.0%}" for name in parts),
        )
    rich.print(table)
    for line in filter(None, (*run.notes, beyond(fitted, wanted[-1]))):
        rich.get_console().print(line, highlight=False, soft_wrap=True, markup=False)
    if out is not None:
        from hpml.predict.scaling_picture import scaling_picture

        shown = sorted({*wanted, *(point.ranks for point in fitted.points)})
        figure = scaling_picture(fitted, shown, points="measured")
        try:
            figure.savefig(out, dpi=160)
        except (OSError, ValueError) as error:  # a folder that is not there; a suffix unknown
            raise UserError(f"--out {out}: {error}") from None
        print(f"drawn: {out}")
    return DONE
