"""Why the end of a published table was not predicted, as far as its own rows show it."""

from collections.abc import Sequence

from hpml.predict.published_predicted import MEDIAN, WORST, Predicted, Table

RISES = 0.10  # more images/s of each rank than on fewer ranks: no part of a step shrinks with ranks


def why_missed(table: Table) -> str:
    """The first of these that holds: no step that grows with ranks has such a curve; no row that
    was fitted used the network between nodes; the loss begins after the rows that were fitted; the
    model does not even meet those.
    Otherwise that the rows do not show it. Empty for a table that was met."""
    if table.met:
        return ""
    few, many = _steepest_rise(table.rows)
    if _each(many) > (1 + RISES) * _each(few):
        return (
            f"each rank makes {_each(many) / _each(few) - 1:.0%} more images/s on "
            f"{many.row.ranks} ranks than on {few.row.ranks}, and in the model no part of a step "
            "shrinks with ranks"
        )
    fitted = [row for row in table.rows if row.fitted]
    last, end = fitted[-1], table.rows[-1]
    if last.row.nodes == 1 < end.row.nodes:
        return (
            "no row that was fitted used the network between nodes, so the share of its rate that "
            f"is reached is open: the interval goes from {end.interval.low:,.0f} to "
            f"{end.interval.high:,.0f}"
        )
    before = 1 - _each(last) / table.fitted.training.images_per_s
    after = 1 - _each(end) / _each(last)
    if after > max(MEDIAN, before):
        return (
            f"each rank loses {before:.0%} up to {last.row.ranks} ranks, which were fitted, and "
            f"{after:.0%} from there to {end.row.ranks}: the first rows do not show it coming"
        )
    if unmet := table.fitted.missed():
        sizes = ", ".join(str(point.ranks) for point in unmet)
        return f"no two constants meet the rows that were fitted: not those of {sizes} ranks"
    return "its rows do not show why"


def not_in_the_model(tables: Sequence[Table]) -> list[str]:
    """A line for each missed table, the worst first."""
    missed = sorted((table for table in tables if not table.met), key=lambda table: -table.worst)
    return [
        f"{table.name}: {table.worst:.1%} off in the worst row (held to {WORST:.0%}), "
        f"{table.median:.1%} in the median (held to {MEDIAN:.0%}): {why_missed(table)}"
        for table in missed
    ]


def _steepest_rise(rows: Sequence[Predicted]) -> tuple[Predicted, Predicted]:
    """The two rows between which each rank gains most, the one with fewer ranks first."""
    pairs = [(few, many) for number, few in enumerate(rows) for many in rows[number + 1 :]]
    return max(pairs, key=lambda pair: _each(pair[1]) / _each(pair[0]))


def _each(row: Predicted) -> float:
    return row.published / row.row.ranks
