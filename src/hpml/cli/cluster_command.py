"""./hpml cluster: a real SLURM on this machine, with virtual nodes."""

import os
import shlex
import sys
from typing import Annotated

import typer

from hpml.cluster.shape import Shape
from hpml.errors import DONE, FAILED

app = typer.Typer(add_completion=False, no_args_is_help=True)

USE_IT = """\
In this shell:  eval "$(./hpml cluster env)"     then sbatch, srun, squeue, scancel, mpirun
A job:          ./hpml submit 00
The end:        ./hpml cluster down
sacct needs a database server, which this cluster has not; sacct --completion lists ended jobs."""


@app.callback()
def cluster() -> None:
    """A real SLURM on this machine, with virtual nodes. Linux; up, down and exec as root."""


@app.command()
def up(
    nodes: Annotated[int, typer.Option(help="How many, 1 to 64.")] = Shape.nodes,
    cpus: Annotated[
        int, typer.Option(help="CPUs that each declares, whatever there are.")
    ] = Shape.cpus,
    link: Annotated[str, typer.Option(help="The rate of each node's link: 100mbit.")] = Shape.link,
    gpus: Annotated[
        int,
        typer.Option(help="GPUs that each declares and does not have: to rehearse _gpu scripts."),
    ] = Shape.gpus,
) -> int:
    """Bring a cluster up: each node with a name, an address, a /tmp and a network link of its own.

    Does nothing where one is up, or where this machine has a SLURM of its own.
    """
    import time

    from hpml import cluster
    from hpml.cluster.needs import other_slurm

    started = time.monotonic()
    shape = cluster.Shape(nodes, cpus, link, gpus)
    shape.check()
    if other := other_slurm():
        typer.echo(f"This machine has a SLURM of its own, {other}: it is used, and left alone.")
        return DONE
    new = cluster.up(shape)
    seconds = f" after {time.monotonic() - started:.1f} s" if new else " already"
    typer.echo(f"The cluster is up{seconds}: {shape}.\n{USE_IT}")
    return DONE


@app.command()
def status() -> int:
    """Show the cluster's state. Exit code 1 where a part of it does not run."""
    from hpml import cluster

    health = cluster.health()
    typer.echo(f"{health.shape}")
    if health.head and "slurmctld" not in health.dead and not health.failed:
        for node in cluster.nodes():
            typer.echo(f"{node.name:<5} {node.address:<15} {node.state}")
    if health.problem:
        typer.echo(f"✗ {health.problem}")
        return FAILED
    return DONE


@app.command(
    "exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def exec_(
    node: Annotated[str, typer.Argument(help="n1, n2, … or head.")],
    command: Annotated[list[str], typer.Argument(help="What to run there, with its options.")],
) -> None:
    """Run a command on a node. Root only; anybody may use srun."""
    from hpml import cluster

    words = cluster.nsenter_command(node, command)
    sys.stdout.flush()
    os.execvp(words[0], words)


@app.command()
def logs(
    of: Annotated[
        str, typer.Argument(metavar="[NAME]", help="slurmctld, n1, n2, …, munged or head.")
    ] = "slurmctld",
) -> None:
    """Print the log of one of the cluster's daemons."""
    from hpml import cluster

    path = cluster.log_file(of)
    typer.echo(path.read_text(errors="replace") if path.exists() else "", nl=False)


@app.command()
def env() -> None:
    """Print the variables that a shell needs: eval "$(./hpml cluster env)"."""
    from hpml import cluster

    for name, value in cluster.environment().items():
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def down() -> None:
    """End the cluster with its jobs, and leave nothing of it behind."""
    from hpml import cluster

    typer.echo("The cluster is down." if cluster.down() else "No cluster is up here.")
