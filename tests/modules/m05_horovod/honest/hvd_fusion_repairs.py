# %%answer hvd_fusion
# unusual: repairs a file that was cut off, match statements, dataclasses, generators, defaultdict
import itertools
import json
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(order=True, frozen=True)
class Phase:
    start: int
    end: int
    name: str = field(compare=False)
    tensor: str = field(compare=False)


def whole(text):
    end = len(text)
    while True:
        try:
            return json.loads(text[:end] + "]" * (end < len(text)))
        except ValueError:
            end = text.rindex("}", 0, end - 1) + 1 if "}" in text[: end - 1] else 1


def phases(text):
    tensor, open_ = {}, defaultdict(list)
    for event in whole(text):
        match event:
            case {"ph": "M", "name": "process_name"}:
                tensor[event["pid"]] = event["args"].get("name")
            case {"ph": "B"}:
                open_[event["pid"]].append(event)
            case {"ph": "E"}:
                start = open_[event["pid"]].pop()
                yield Phase(start["ts"], event["ts"], start["name"], tensor[event["pid"]])


def union(of):
    """Microseconds in which at least one of them is going on, by a sweep over their ends."""
    edges = sorted(itertools.chain.from_iterable([(p.start, 1), (p.end, -1)] for p in of))
    total, depth = 0, 0
    for (at, change), (following, _) in zip(edges, edges[1:]):
        depth += change
        total += (following - at) * (depth > 0)
    return total


def read_timeline(text: str) -> dict:
    all_ = sorted(phases(text))
    waits = [p for p in all_ if p.name.startswith("NEGOTIATE")]
    moves = [p for p in all_ if p.name.split("_", 1)[0] in ("GLOO", "MPI", "NCCL")]
    messages: list[list[Phase]] = []
    for move in moves:
        if messages and move.start < min(p.end for p in messages[-1]):
            messages[-1].append(move)
        else:
            messages.append([move])
    return {
        "collectives": [[move.tensor for move in message] for message in messages],
        "negotiated": union(waits) / 1e6,
        "transferred": union(moves) / 1e6,
    }
