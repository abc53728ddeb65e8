# wrong: a tensor's phases are kept by its name, so that one step's hide another's
# hint: again
import json
from collections import defaultdict


def read_timeline(text: str) -> dict[str, list[list[str]] | float]:
    """What a Horovod timeline tells. Returns

    - `collectives`: for each one that travelled, in order, the names of the tensors in it
    - `negotiated`: seconds in which at least one tensor was being negotiated
    - `transferred`: seconds in which data of at least one tensor travelled

    `text` is the file's content. It may stop anywhere; phases that had not ended by then are in
    none of the figures.
    """
    try:
        events = json.loads(text)
    except json.JSONDecodeError:  # cut off: as far as the last event that another one follows
        events = json.loads(text[: text.rfind("},") + 1] + "]")

    names, begun, phases = {}, defaultdict(list), []
    for event in events:
        pid = event.get("pid")
        if event["ph"] == "M" and event["name"] == "process_name":
            names[pid] = event["args"].get("name")
        elif event["ph"] == "B":
            begun[pid].append((event["name"], event["ts"]))
        elif event["ph"] == "E":
            name, start = begun[pid].pop()
            phases.append((start / 1e6, event["ts"] / 1e6, name, names[pid]))
    phases = sorted(
        {(name, tensor): (start, end, name, tensor) for start, end, name, tensor in phases}.values()
    )

    negotiations = [phase for phase in phases if phase[2].startswith("NEGOTIATE_")]
    transfers = [phase for phase in phases if phase[2].startswith(("GLOO_", "MPI_", "NCCL_"))]
    collectives, message_ends = [], 0.0
    for start, end, _, tensor in transfers:
        if start >= message_ends:  # all tensors of a message begin before one of them ends
            collectives.append([])
            message_ends = end
        collectives[-1].append(tensor)
    return {
        "collectives": collectives,
        "negotiated": covered(negotiations),
        "transferred": covered(transfers),
    }


def covered(phases) -> float:
    """Seconds in which at least one of these phases, sorted by their starts, is going on."""
    seconds = reached = 0.0
    for start, end, *_ in phases:
        seconds += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return seconds
