"""A large trace to read: the steps of a real one, again and again.

A trace of a hundred megabytes is some minutes of a small model or a step of a large one. Here a few
steps are recorded and their events written many times, each time later, with numbers of their own.
"""

import json
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, record_function, schedule

from hpml.measure.profiling_overhead import training_step

STEPS = 3
NUMBERS = ("External id", "Ev Idx", "Sequence number")  # of `args`: no two events share one


def record(path: Path) -> None:
    """Record `STEPS` training steps, with shapes and memory, as an exercise of module 03 does."""
    step = training_step()
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        record_shapes=True,
        profile_memory=True,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:
        for _ in range(STEPS + 1):
            with record_function("training"):
                step()
            profiler.step()


def repeat(source: Path, path: Path, size: int) -> int:
    """Write the trace `source` to `path`, its events repeated until it has `size` bytes.

    Returns how many steps it has. The indentation is torch.profiler's.
    """
    whole = json.loads(source.read_text())
    events = whole.pop("traceEvents")
    names = [event for event in events if event["ph"] == "M"]
    repeated = [
        event
        for event in events
        if (event["ph"] != "M" and event.get("cat") in ("cpu_op", "user_annotation", "fwdbwd"))
        or event["name"] == "[memory]"
    ]  # fmt: skip
    marks = [event for event in repeated if event["name"].startswith("ProfilerStep#")]
    start = min(event["ts"] for event in marks)
    period = max(event["ts"] + event["dur"] for event in marks) - start + 100.0
    number = 1 + max(_largest(event) for event in repeated)
    turn = 0
    with path.open("w") as file:
        file.write(json.dumps(whole, indent=2)[:-2] + ',\n  "traceEvents": [\n')
        file.write(",\n".join(_written(event) for event in names))
        while file.tell() < size:
            for event in repeated:
                later = _later(event, turn, turn * period, turn * number, len(marks))
                file.write(",\n" + _written(later))
            turn += 1
        file.write('\n  ],\n  "traceName": "repeated"\n}\n')
    return turn * len(marks)


def _largest(event: dict[str, Any]) -> int:
    arguments = event.get("args", {})
    return max(event.get("id", 0), *(arguments.get(name, 0) for name in NUMBERS))


def _later(
    event: dict[str, Any], turn: int, time: float, number: int, steps: int
) -> dict[str, Any]:
    event = event | {"ts": event["ts"] + time}
    if "id" in event:
        event["id"] += number
    if "args" in event:
        arguments = event["args"]
        own = {name: arguments[name] + number for name in NUMBERS if name in arguments}
        event["args"] = arguments | own
    if event["name"].startswith("ProfilerStep#"):
        step = int(event["name"].removeprefix("ProfilerStep#")) + turn * steps
        event["name"] = f"ProfilerStep#{step}"
    return event


def _written(event: dict[str, Any]) -> str:
    """With the line breaks that Kineto writes: one before the arguments, one for each of them."""
    text = json.dumps({key: value for key, value in event.items() if key != "args"})[1:-1]
    if "args" in event:
        lines = (f"      {json.dumps(k)}: {json.dumps(v)}" for k, v in event["args"].items())
        text += ',\n    "args": {\n' + ",\n".join(lines) + "\n    }\n "
    return "  {\n    " + text + " }"
