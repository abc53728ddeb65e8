"""The recorded calls of a launch as lines of text: a row per rank, calls of one number in columns.

The drawing over time is `hpml.trace.launch_svg`. What a rank reported is not trusted.
"""

from collections.abc import Collection

from hpml.files.sanitize import one_line
from hpml.ranks.evidence import Call, Evidence, RankEvidence
from hpml.trace.failing_call import failing_calls
from hpml.trace.layout import drawn_calls

WIDTH = 90  # columns of a row
RANKS = 8
_ENDS = {"returned": "returned", "exited": "left", "killed": "killed", "ended": ""}


def calls_in_order(evidence: Evidence, lines: Collection[int] = ()) -> str:
    """A row per rank with its last calls, by their number; "✗" is on each call that failed.

    `lines` as `failing_calls` has them. Empty where no rank made a call.
    """
    failing = failing_calls(evidence, lines)
    ranks = evidence.ranks[:RANKS]
    rows = {rank.rank: {call.index: _cell(rank, call, failing) for call in drawn_calls(rank)}
            for rank in ranks}  # fmt: skip
    if not any(rows.values()):
        return ""
    for rank in ranks:
        if end := _end(rank):
            rows[rank.rank][max(rows[rank.rank], default=0) + 1] = end
    last = max(index for row in rows.values() for index in row)
    shown: list[int] = []
    widths: dict[int, int] = {}
    left = WIDTH - len(f"rank {RANKS}  … ")
    for index in range(last, 0, -1):
        width = max((len(row.get(index, "")) for row in rows.values()), default=0)
        if width + 2 > left:
            break
        left -= width + 2
        widths[index] = width
        shown.insert(0, index)
    before = "… " if shown and any(i < shown[0] for row in rows.values() for i in row) else ""
    lines = [
        f"rank {rank}  {before}" + "  ".join(row.get(i, "").ljust(widths[i]) for i in shown)
        for rank, row in rows.items()
    ]
    if len(evidence.ranks) > RANKS:
        lines.append(f"… ranks {RANKS} to {len(evidence.ranks) - 1} are left out")
    return "\n".join(line.rstrip() for line in lines)


def _cell(rank: RankEvidence, call: Call, failing: frozenset[tuple[int, int]]) -> str:
    message = call.peer is not None
    name = one_line(f"{call.operation} {call.detail}" if message else call.operation, 24)
    return f"{call.index} {'✗ ' if (rank.rank, call.index) in failing else ''}{name}"


def _end(rank: RankEvidence) -> str:
    if rank.end == "raised":
        return one_line(f"raised {rank.raised.kind}" if rank.raised else "raised", 28)
    return _ENDS[rank.end]
