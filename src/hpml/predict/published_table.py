"""The published scaling tables for a reader: what is left of each rank, and where it was read."""

from collections.abc import Iterable, Sequence

from hpml.predict.published_scaling import ALGORITHMS, Row, tables


def efficiencies(rows: Sequence[Row]) -> tuple[tuple[int, float], ...]:
    """Pairs (ranks, efficiency) of a table: throughput of a rank, over that in the first row.

    Where the source gives efficiencies, these: their base is in the row's `method`, or one rank.
    """
    first = rows[0]
    if first.unit == "efficiency":
        return tuple((row.ranks, row.value) for row in rows)
    base = _throughput(first) / first.ranks
    return tuple((row.ranks, _throughput(row) / row.ranks / base) for row in rows)


def overview(shown: Iterable[Sequence[Row]] | None = None) -> str:
    """The tables as Markdown, a row each: what ran where, and the efficiency at the last size."""
    lines = [
        "| table | year, cluster | model, batch of a rank | network between nodes | all-reduce "
        "| ranks | efficiency at the end |",
        "|---|---|---|---|---|---|---|",
    ]
    for rows in tables().values() if shown is None else shown:
        first, last = rows[0], rows[-1]
        batch = f", {first.batch}" if first.batch else ""
        across = first.network if last.nodes > 1 else "–"
        cells = (
            f"`{first.table}`",
            f"{first.year}, {first.cluster}",
            f"{first.model}{batch}",
            across or "–",
            ALGORITHMS[first.algorithm],
            f"{first.ranks} to {last.ranks}" if len(rows) > 1 else f"{last.ranks}",
            f"{efficiencies(rows)[-1][1]:.0%}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sources(shown: Iterable[Sequence[Row]] | None = None) -> str:
    """Where the tables are from, as a Markdown list: each publication once, how its figures were
    read, and its links. The place in it of every row is in `published_scaling.csv`."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for rows in tables().values() if shown is None else shown:
        for row in rows:
            one = found.setdefault(row.source, {"how": {}, "links": {}})
            one["how"][row.how] = None
            one["links"][row.where.rpartition("; ")[2]] = None
    return "\n".join(
        f"- **{source}**: {'; '.join(one['how'])}. {', '.join(one['links'])}"
        for source, one in found.items()
    )


def _throughput(row: Row) -> float:
    """Work in a second, in a unit that is the same for all rows of a table."""
    if row.unit == "s/epoch" or (row.unit == "s/step" and row.scaling == "strong"):
        return 1 / row.value
    return row.ranks / row.value if row.unit == "s/step" else row.value
