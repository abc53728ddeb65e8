"""Where a run's minutes go: a table by folder, of the seconds of its tests."""

from collections import defaultdict
from collections.abc import Mapping, Set

HEAD = (
    "| part | tests | start a process | seconds | slowest file |",
    "| :--- | ---: | ---: | ---: | :--- |",
)


def table(seconds: Mapping[str, float], starting: Set[str]) -> str:
    """A Markdown table of tests by their folder, the longest first. `seconds` is by test id."""
    parts: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    started: dict[str, int] = defaultdict(int)
    for test, took in seconds.items():
        file = test.partition("::")[0]
        folder = file.rpartition("/")[0]
        part = file if folder in ("", "tests") else folder
        parts[part][file].append(took)
        started[part] += test in starting
    rows = []
    for part, files in parts.items():
        total = {file: sum(each) for file, each in files.items()}
        slowest = max(total, key=total.__getitem__)
        count = sum(map(len, files.values()))
        named = "" if slowest == part else f"`{slowest.rpartition('/')[2]}` {total[slowest]:.0f}"
        rows.append((sum(total.values()), f"`{part}`", count, started[part], named))
    whole = sum(seconds.values())
    rows = sorted(rows, reverse=True)
    lines = [f"| {part} | {n} | {s} | {took:.0f} | {named} |" for took, part, n, s, named in rows]
    all_ = f"| all | {len(seconds)} | {len(starting)} | {whole:.0f} | |"
    return "\n".join([*HEAD, all_, *lines]) + "\n"
