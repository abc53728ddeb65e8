"""What published scaling tables and their foretold ends come to, for `hpml.publish.conclude`.

Each finding is (held, sentence, otherwise).
"""

import statistics
from collections.abc import Sequence

from hpml.predict.published_foretold import MEDIAN, WORST, Table
from hpml.predict.scaling import Training, buckets
from hpml.predict.scaling_fit import INTERVAL, Interval
from hpml.predict.scaling_misses import not_in_the_model, why_missed

Finding = tuple[bool, str, str]


def of_buckets(training: Training) -> Finding:
    """Is the last bucket ready only when backward ends?"""
    filled = buckets(training)
    ready, nbytes = filled[-1]
    said = (
        f"{training.model.name} fills {len(filled)} buckets. The last, of {nbytes / 1e6:.0f} MB, "
        f"is ready after {1e3 * ready:.0f} of {1e3 * training.compute:.0f} ms"
    )
    return (
        ready >= 0.99 * training.compute,
        f"{said}, when backward ends: nothing is left that could hide it.",
        f"{said}: the first layers have no parameters to send.",
    )


def of_intervals(before: Interval, after: Interval) -> Finding:
    """Is the interval narrower with measurements (`after`) than without?"""
    wide, narrow = before.high / before.low, after.high / after.low
    said = (
        f"Without a measurement the upper end is {wide:.1f} times the lower one, with them "
        f"{narrow:.1f} times"
    )
    return narrow < wide, f"{said}.", f"{said}: these runs do not fit the model at all."


def of_the_end(table: Table) -> Finding:
    """Were all rows that the fit had not seen foretold within MEDIAN and WORST?"""
    last = table.rows[-1]
    inside = sum(row.published in row.interval for row in table.test)
    count = len(table.test)
    said = (
        f"On {last.row.ranks} ranks {last.foretold:,.0f} images/s are foretold, between "
        f"{last.interval.low:,.0f} and {last.interval.high:,.0f}; published are "
        f"{last.published:,.0f}. The worst of {count} rows that the fit had not seen is "
        f"{table.worst:.0%} off, and {inside} of {count} lie in their interval."
    )
    return table.met, said, f"{said} Why, as far as its rows show: {why_missed(table)}."


def of_two_networks(slow: Table, fast: Table) -> Finding:
    """Is it the exposed communication in which one cluster differs on two networks?"""
    ranks = min(slow.rows[-1].row.ranks, fast.rows[-1].row.ranks)
    one, other = (table.fitted.predict(ranks).step for table in (slow, fast))
    parts = {"exposed communication": one.exposed - other.exposed}
    parts["straggling"] = one.straggling - other.straggling
    parts["computing"] = one.compute - other.compute
    most = max(parts, key=parts.__getitem__)
    said = (
        f"On {ranks} ranks a step takes {1e3 * one.seconds:.0f} ms over the slow network and "
        f"{1e3 * other.seconds:.0f} ms over the fast one. Exposed are {1e3 * one.exposed:.0f} and "
        f"{1e3 * other.exposed:.0f} ms of it"
    )
    held = most == "exposed communication" and parts[most] > 0
    return (
        held,
        f"{said}: that is what the faster network shortens. Computing, {1e3 * one.compute:.0f} and "
        f"{1e3 * other.compute:.0f} ms, it cannot. What the model calls straggling takes "
        f"{1e3 * one.straggling:.0f} and {1e3 * other.straggling:.0f} ms.",
        f"{said}; most of the difference is {most}. Two constants can stand in for each other "
        "where few rows were fitted.",
    )


def of_all(tables: Sequence[Table]) -> Finding:
    """Is the model nearer than carrying on from the last row that was fitted?"""
    rows = [row for table in tables for row in table.test]
    model = statistics.median(abs(row.error) for row in rows)
    carried = statistics.median(abs(row.carried_on / row.published - 1) for row in rows)
    met = sum(table.met for table in tables)
    inside = sum(row.published in row.interval for row in rows)
    said = (
        f"{len(rows)} rows of {len(tables)} tables were foretold, {model:.1%} off in the median. "
        f"If each rank stayed as fast as on the largest size that was fitted, it would be "
        f"{carried:.1%}. {met} tables are within {MEDIAN:.0%} in the median and {WORST:.0%} in the "
        f"worst row, and {inside / len(rows):.0%} of the rows lie in their interval of 90 in 100"
    )
    if inside / len(rows) < INTERVAL:
        said += ": fewer than it promises, for an interval knows no doubt about the model itself"
    return (
        model < carried and met > len(tables) / 2,
        f"{said}.",
        f"{said}: here the model is not worth its two constants.",
    )


class Misses:
    """The tables that were missed, as Markdown: a row each with what its rows show."""

    def __init__(self, tables: Sequence[Table]):
        self.lines = not_in_the_model(tables)

    def _repr_markdown_(self) -> str:
        return "\n".join(f"- {line}." for line in self.lines)

    __repr__ = _repr_markdown_
