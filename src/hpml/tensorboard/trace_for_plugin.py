"""A trace of today's PyTorch in the words that torch_tb_profiler 0.4.3 knows.

The plugin was last changed in 2023. Since then PyTorch names some categories of events otherwise,
and the plugin drops what it does not know: the time in a DataLoader, and all calls of CUDA's
runtime. It also takes a kernel of NCCL for communication only where the kernel has the id of the
mark ("nccl:all_reduce") that launched it; today each has an id of its own.

Category names as in PyTorch 2.13's traces: Kineto, libkineto/src/ActivityType.cpp.
"""

from typing import Any

# The category as Kineto writes it now: the one that the plugin looks for
RENAMED = {
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "fwdbwd": "forward_backward",
}
# Names of annotations that the plugin counts as operators, and looks for among those only
LOADING = ("enumerate(DataLoader)#", "enumerate(DataPipe)#")


def translate(trace: dict[str, Any]) -> dict[str, Any]:
    """Change a trace, as `json.loads` gives it, so that the plugin sees all that is in it.

    Raises ValueError where it is not a trace of PyTorch's profiler.
    """
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise ValueError("no list of traceEvents in it")
    if not any(event.get("ph") == "X" for event in events):
        raise ValueError("no events with a duration in it")
    for event in events:
        category = event.get("cat", "")
        if category == "user_annotation" and str(event.get("name")).startswith(LOADING):
            event["cat"] = "cpu_op"
        elif category in RENAMED:
            event["cat"] = RENAMED[category]
    _give_nccl_kernels_their_marks(events)
    return trace


def _give_nccl_kernels_their_marks(events: list[dict[str, Any]]) -> None:
    """A kernel of NCCL, and its launch, get the id of the innermost mark around the launch."""
    marks = [e for e in events if str(e.get("name")).startswith("nccl:") and _on_host(e)]
    if not marks:
        return
    launches = {_argument(e, "correlation"): e for e in events if e.get("cat") == "runtime"}
    for event in events:
        if event.get("cat") != "kernel" or not str(event.get("name")).startswith("nccl"):
            continue
        launch = launches.get(_argument(event, "correlation"))
        around = [mark for mark in marks if launch is not None and _is_around(mark, launch)]
        if launch is not None and around:
            mark = max(around, key=lambda mark: mark["ts"])
            for one in (event, launch):
                one["args"]["External id"] = _argument(mark, "External id")


def _on_host(event: dict[str, Any]) -> bool:
    return event.get("cat") == "user_annotation" and _argument(event, "External id") is not None


def _argument(event: dict[str, Any], name: str) -> Any:
    found = event.get("args")
    return found.get(name) if isinstance(found, dict) else None


def _is_around(mark: dict[str, Any], event: dict[str, Any]) -> bool:
    same = all(mark.get(key) == event.get(key) for key in ("pid", "tid"))
    return same and mark["ts"] <= event["ts"] <= mark["ts"] + mark["dur"]
