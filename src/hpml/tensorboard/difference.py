"""Two runs' operators side by side, each beside itself.

The page compares the two lists of operators by position. Where only one run has an operator, the
plugin's answer would put all that follow beside others, and the page fails where one list ends.
"""

from typing import Any


def align(node: dict[str, Any]) -> dict[str, Any]:
    """A node of the plugin's answer with the same operators on both sides: none ran 0 times."""
    sides = [{agg["name"]: agg for agg in node[side]["aggs"]} for side in ("left", "right")]
    names = [*sides[0], *(name for name in sides[1] if name not in sides[0])]
    for side, found in zip(("left", "right"), sides, strict=True):
        other = sides[1] if side == "left" else sides[0]
        node[side]["aggs"] = [
            found.get(name) or dict.fromkeys(other[name], 0) | {"name": name} for name in names
        ]
    for child in node.get("children", ()):
        align(child)
    return node
