"""./hpml doctor: what this machine has, and what it costs to lack the rest."""

from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from hpml.errors import DONE, USAGE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hpml.doctor import Fact


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print the facts as JSON.")] = False,
) -> int:
    """What this machine has for the course, what each lack costs, and what to do about it.

    Exit code 0 when the course can run here, 2 when it cannot.
    """
    from hpml import doctor

    facts = doctor.facts()
    if find_spec("hpml.grading"):  # not part of a release for learners
        facts += (import_module("hpml.grading.sandbox").fact(),)
    runs = doctor.can_run(facts)
    if json:
        from json import dumps

        print(dumps({"can_run": runs, "facts": [asdict(fact) for fact in facts]}, indent=2))
    else:
        _print_table(facts, runs)
    return DONE if runs else USAGE


def _print_table(facts: "Sequence[Fact]", runs: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    for fact in facts:
        colour = "green" if fact.ok else "red" if fact.needed else "yellow"
        table.add_row(escape(fact.name), f"[{colour}]{escape(fact.value)}[/]")
        if not fact.ok:
            table.add_row("", escape(f"costs: {fact.cost_of_lack}"), style="dim")
            table.add_row("", escape(f"remedy: {fact.remedy}"), style="dim")
    console = Console(highlight=False)
    console.print(table)
    lacking = sum(not fact.ok for fact in facts)
    console.print()
    if runs:
        console.print(f"The course runs here. Things lacking: {lacking}.")
    else:
        console.print("The course cannot run here: see what is red above.")
