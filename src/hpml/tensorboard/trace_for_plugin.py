"""A trace of today's PyTorch in the words that torch_tb_profiler 0.4.3 knows.

The plugin was last changed in 2023. Since then PyTorch names some categories of events otherwise,
and the plugin drops what it does not know: the time in a DataLoader, and all calls of CUDA's
runtime. Category names as in PyTorch 2.13's traces: Kineto, libkineto/src/ActivityType.cpp.
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
    return trace
