"""The machine's facts as a table in a notebook, which may be handed on to others."""

import re
from collections.abc import Iterable

from hpml.doctor import Fact

_FOLDERS = re.compile(r"(?:/[^/\s:,|]+)+/(?=[^/\s])")


def facts_as_markdown(facts: Iterable[Fact]) -> str:
    """A Markdown table: what there is, and what a lack costs. Of paths only the last part is shown.

    A notebook is committed and sent around; where somebody's home folder is, is nobody's business.
    """
    lines = ["| | here | what the lack of it costs |", "|---|---|---|"]
    for fact in facts:
        cells = (fact.name, _FOLDERS.sub("…/", fact.value), "" if fact.ok else fact.cost_of_lack)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)
