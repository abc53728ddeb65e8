"""The machine's facts as a table for a notebook, without private paths."""

import re
from collections.abc import Iterable

from hpml.doctor import Fact

_FOLDERS = re.compile(r"(?:/[^/\s:,|]+)+/(?=[^/\s])")


def facts_as_markdown(facts: Iterable[Fact]) -> str:
    """A Markdown table: what there is, and what a lack costs.

    Of a path only the last part is shown: notebooks are shared, and home folders are private.
    """
    lines = ["| | here | what the lack of it costs |", "|---|---|---|"]
    for fact in facts:
        cells = (fact.name, _FOLDERS.sub("…/", fact.value), "" if fact.ok else fact.cost_of_lack)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)
