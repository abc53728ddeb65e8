"""Traces as PyTorch 2.13 writes them, with what happened when chosen by the test (microseconds)."""

import gzip
import json
from pathlib import Path
from typing import Any

MAIN, GLOO, AUTOGRAD, STREAM = 100, 101, 102, 7
AUTOGRAD_NODE = "autograd::engine::evaluate_function: "


class Planted:
    """A trace that is put together event by event."""

    def __init__(self, rank: int | None = None, world_size: int = 2) -> None:
        self.events: list[dict[str, Any]] = []
        self.frame: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [],
            "baseTimeNanoseconds": 1790857026000000000,
        }
        if rank is not None:
            self.frame["distributedInfo"] = {
                "backend": "gloo",
                "rank": rank,
                "world_size": world_size,
                "pg_config": [{"pg_name": "0", "ranks": list(range(world_size))}],
            }
        self.thread_name(MAIN, f"thread {MAIN} (python)")

    def add(self, **event: Any) -> None:
        self.events.append({"pid": MAIN} | event)

    def thread_name(self, tid: int, name: str) -> None:
        self.add(ph="M", name="thread_name", ts=0.0, tid=tid, args={"name": name})

    def event(
        self, name: str, start: float, end: float, cat: str = "cpu_op", tid: int = MAIN, **args: Any
    ) -> None:
        args = {"External id": len(self.events), "Ev Idx": len(self.events)} | args
        self.add(ph="X", cat=cat, name=name, tid=tid, ts=start, dur=end - start, args=args)

    def mark(self, name: str, start: float, end: float, tid: int = MAIN) -> None:
        self.event(name, start, end, "user_annotation", tid)

    def step(self, number: int, start: float, end: float) -> None:
        self.mark(f"ProfilerStep#{number}", start, end)

    def all_reduce(self, start: float, end: float, tid: int = GLOO) -> None:
        self.mark("gloo:all_reduce", start, end, tid)

    def link(self, identity: int, forward: float, backward: float, tid: int = MAIN) -> None:
        """`tid` is the thread that runs backward."""
        name = {"cat": "fwdbwd", "name": "fwdbwd", "id": identity}
        self.add(ph="s", tid=MAIN, ts=forward, **name)
        self.add(ph="f", tid=tid, ts=backward, bp="e", **name)

    def memory(self, at: float, change: int, allocated: int, device: int = -1) -> None:
        args = {"Bytes": change, "Total Allocated": allocated, "Total Reserved": 0}
        args |= {"Device Id": device, "Device Type": 0 if device < 0 else 1, "Addr": 2**46}
        name = {"cat": "cpu_instant_event", "s": "t", "name": "[memory]"}
        self.add(ph="i", tid=MAIN, ts=at, args=args, **name)

    def text(self) -> str:
        return json.dumps({**self.frame, "traceEvents": self.events, "traceName": "x"}, indent=1)

    def write(self, path: Path) -> Path:
        """Packed with gzip where the name ends in .gz."""
        content = self.text().encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path
