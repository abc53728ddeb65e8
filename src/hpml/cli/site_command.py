"""./hpml site: the course on your own cluster."""

from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import DONE, FAILED

if TYPE_CHECKING:
    from hpml.doctor import Fact

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def site() -> None:
    """The course on your own cluster, as slurm/site.sh describes it."""


@app.command()
def check(
    learners: Annotated[int, typer.Option(min=1, help="For how many the cost is counted.")] = 30,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long a job may take to start.")
    ] = 300.0,
) -> int:
    """The day before: would sbatch take each script, and what does a job on two nodes find?

    On a login node, after you have edited slurm/site.sh. Submits one job of two nodes, with GPUs
    another one. Exit code 1 where something is red.
    """
    from hpml.cluster import job_script, queue
    from hpml.course import schedule, site_check

    course = schedule.load()
    scripts = [job_script.read(path, course.root) for m in course.modules for path in m.jobs]
    here = site_check.Site(queue.find(), course.root, tuple(scripts))
    red = 0
    for fact in site_check.facts(here, learners, wait, lambda line: typer.echo(line, err=True)):
        _show(fact)
        red += fact.needed and not fact.ok
    typer.echo(f"\nRed: {red}." if red else "\nThe course runs on this cluster.")
    return FAILED if red else DONE


def _show(fact: "Fact") -> None:
    colour = "green" if fact.ok else "red" if fact.needed else "yellow"
    mark = "✓" if fact.ok else "✗" if fact.needed else "–"
    typer.echo(f"{typer.style(mark, fg=colour)} {fact.name}: {typer.style(fact.value, fg=colour)}")
    if not fact.ok:
        typer.echo(f"    costs: {fact.cost_of_lack}\n    remedy: {fact.remedy}")
