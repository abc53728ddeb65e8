"""./hpml submit: submit a module's job script to SLURM and follow it to its end."""

from typing import Annotated

import typer

from hpml.errors import DONE, FAILED, UserError

INTERRUPTED = 130


def submit(
    module: Annotated[str, typer.Argument(help="06, torch_distributed, …")],
    options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SBATCH OPTIONS] [-- ARGUMENTS]",
            help="For sbatch, and after -- for the script: --time=5 -- --epochs 1",
        ),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", "-N", help="How many nodes; default: the script's.")
    ] = None,
    job: Annotated[
        str | None, typer.Option(metavar="NAME", help="This job script, where there are several.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the sbatch line.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Wait for its end, and show its log.")
    ] = True,
) -> int:
    """Submit a module's job script: show the sbatch line, submit it, follow the job to its end.

    To this machine's SLURM, or the cluster that ./hpml cluster up made. Exit code 1 unless the job
    is COMPLETED.
    """
    from hpml.cluster import job_script, queue
    from hpml.course import schedule
    from hpml.machine.resources import usable_cores

    if nodes is not None and nodes < 1:
        raise UserError(f"--nodes {nodes}: give 1 or more")
    course = schedule.load()
    chosen = course.module(module)
    options = options or []
    cut = options.index("--") if "--" in options else len(options)
    for_sbatch, arguments = options[:cut], options[cut + 1 :]

    slurm = None
    try:
        slurm = queue.find()
    except UserError:
        if not dry_run:
            raise
    script = job_script.choose(
        [job_script.read(path, course.root) for path in chosen.jobs],
        module=chosen.id,
        job=job,
        nodes=nodes,
        gpus=slurm is not None and slurm.gpus(),
    )
    fitting = []
    if slurm is not None and slurm.shape is not None:
        cores = max(1, int(usable_cores()))
        fitting = job_script.fitting_options(script, slurm.shape, for_sbatch, nodes, cores)
        if fitting:
            typer.echo(f"{' '.join(fitting)}: all nodes share the {cores} cores of this machine")
        if script.gpus and slurm.shape.gpus and "--device" not in arguments:
            typer.echo("The GPUs here are make-believe: after --, give the program --device cpu.")
    asked = [f"--nodes={nodes}"] if nodes is not None else []
    words = job_script.sbatch_command(script, [*asked, *fitting, *for_sbatch], arguments)
    settings = job_script.site_settings(script, course.root)
    where = {"SLURM_CONF": slurm.settings["SLURM_CONF"]} if slurm and slurm.settings else {}
    typer.echo(job_script.shell_line(words, {**where, **settings}))
    if dry_run:
        return DONE

    assert slurm is not None
    number = queue.submit(slurm, words, settings, course.root)
    typer.echo(f"job {number} is in the queue")
    if not follow:
        return DONE
    try:
        state = queue.follow(slurm, number, typer.echo)
    except KeyboardInterrupt:
        typer.echo(f"\nNo longer following job {number}, which goes on: scancel {number} ends it.")
        return INTERRUPTED
    return DONE if state == "COMPLETED" else FAILED
