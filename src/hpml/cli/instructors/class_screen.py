"""Where a class is now, for a terminal: what is most urgent stands first, as a screen is short."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hpml.course.instructors.class_now import LONG, Cell, CoreRow, Missed, Now, Row, Standing
from hpml.course.instructors.class_page import by_the_clock, not_read

_STYLES = {"": "dim", "done": "green", "on it": "cyan", "long": "bold red", "tried": ""}
_BAR = 20  # characters


def screen(now: Now, pages: Sequence[str] = ()) -> RenderableType:
    """Everything as text: what a learner's machine reported is never taken for rich's markup.

    `pages` are addresses and files that show the same.
    """
    count = len(now.learners)
    learners = "1 learner" if count == 1 else f"{count} learners"
    minutes = LONG.seconds // 60
    parts: list[RenderableType] = [
        Text(f"{now.at:%H:%M:%S}  {learners}, {now.active} at work. {by_the_clock(now)}", "bold")
    ]
    if pages:
        parts.append(Text(f"The same as a page: {' and '.join(pages)}", "dim"))
    if now.fault:
        parts.append(Text(f"This is how it was then: {now.fault}", "bold red"))
    parts += [_heading("Missed by most, now"), *map(_missed, now.missed)]
    if not now.missed:
        parts.append(Text("Nobody is on a claim."))
    parts += [_heading(f"On one claim for {minutes} minutes and more: {len(now.long)}")]
    parts += [_long(now.long)] if now.long else []
    parts += [_heading("The core path, by the run sheet's clock"), _core(now.core, count)]
    if now.rows:
        parts += [_heading("Who is where"), _rows(now.rows)]
        parts.append(Text(f"Columns: {', '.join(now.learners)}", "dim"))
    parts.append(Text(f"\nNot marks: what learners' own machines reported. {not_read(now)}", "dim"))
    return Group(*parts)


def _heading(words: str) -> Text:
    return Text(f"\n{words}", "bold underline")


def _missed(missed: Missed) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    first = Text.assemble((f"{missed.exercise}: ", "bold"), missed.what)
    table.add_row(Text(str(len(missed.learners)), "bold red"), first)
    if missed.mistake and missed.mistake.wrong:
        table.add_row("", Text.assemble(("often they wrote: ", "dim"), missed.mistake.wrong))
    if missed.mistake:
        table.add_row("", Text.assemble(("say: ", "dim"), missed.mistake.say))
    return table


def _long(standings: tuple[Standing, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    for each in standings:
        table.add_row(
            Text(f"{each.minutes} min", "bold red"),
            Text(each.learner, "bold"),
            Text(f"{each.exercise}: {each.what}"),
            Text(
                f"{each.checks} checks, {each.hints} hints read, last {each.quiet} min ago", "dim"
            ),
        )
    return table


def _core(rows: tuple[CoreRow, ...], count: int) -> Table:
    table = Table.grid(padding=(0, 2))
    for row in rows:
        done = round(_BAR * row.done / count) if count else 0
        on_it = min(round(_BAR * row.on_it / count), _BAR - done) if count else 0
        bar = Text.assemble(
            ("█" * done, "green"), ("▒" * on_it, "cyan"), "·" * (_BAR - done - on_it)
        )
        style = {"now": "bold yellow", "over": "", "later": "dim"}[row.phase]
        words = f"{row.done} done" + (f", {row.on_it} on it" if row.on_it else "")
        mark = "now" if row.phase == "now" else row.at
        table.add_row(Text(mark, style), Text(row.exercise, style), bar, Text(words, style))
    return table


def _rows(rows: tuple[Row, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    for row in rows:
        cells = (Text(_sign(cell), _STYLES[cell.state]) for cell in row.cells)
        strip = Text(" ").join(cells)
        table.add_row(Text(row.exercise.id), strip)
    return table


def _sign(cell: Cell) -> str:
    """One character: passed, or how many claims hold."""
    if cell.state == "done":
        return "✓"
    return (str(cell.holds) if cell.holds < 10 else "+") if cell.state else "·"
