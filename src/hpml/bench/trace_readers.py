"""Programs that read one trace, each in a process of its own, for `./hpml bench trace`.

    python -m hpml.bench.trace_readers NAME TRACE

prints one line of JSON: seconds, without the time to import; peak memory in bytes, of the process
or of one that it started, if that is more; and what was found.
"""

import contextlib
import json
import logging
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def _ours(trace: Path) -> Callable[[], object]:
    from hpml.trace.profiler.operators import operators
    from hpml.trace.profiler.read import read
    from hpml.trace.profiler.shares import shares_of_steps

    def run() -> object:
        found = read(trace)
        return {"steps": len(shares_of_steps(found)), "operators": len(operators(found))}

    return run


def _json(trace: Path) -> Callable[[], object]:
    def run() -> object:
        with trace.open() as file:
            return {"events": len(json.load(file)["traceEvents"])}

    return run


def _holistic(trace: Path) -> Callable[[], object]:
    from hta.trace_analysis import TraceAnalysis

    logging.disable(logging.CRITICAL)

    def run() -> object:
        found = TraceAnalysis(trace_files={0: str(trace)}, trace_dir=str(trace.parent))
        return {"steps": len(found.get_profiler_steps())}

    return run


def _plugin(trace: Path) -> Callable[[], object]:
    import torch_tb_profiler.plugin  # noqa: F401  before the loader, which it imports in a circle
    from torch_tb_profiler.io.cache import Cache
    from torch_tb_profiler.profiler.loader import RunLoader

    logging.disable(logging.CRITICAL)

    def run() -> object:
        with tempfile.TemporaryDirectory(prefix="hpml-trace-") as folder, Cache() as cache:
            # It takes each file of a folder that has its name for a trace.
            Path(folder, "rank0.pt.trace.json").symlink_to(trace)
            (found,) = RunLoader("bench", folder, cache).load().profiles.values()
            for process in multiprocessing.active_children():
                process.join(10.0)  # its memory is known once it has ended
            return {"steps": len(found.overview["steps"]["rows"])}

    return run


READERS: Mapping[str, Callable[[Path], Callable[[], object]]] = {
    "hpml": _ours,
    "json": _json,
    "holistic": _holistic,
    "plugin": _plugin,
}


def main(name: str, trace: str) -> None:
    # Kept for the answer: the libraries print what they do.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    run = READERS[name](Path(trace).resolve())
    began = time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        found = run()
    seconds = time.perf_counter() - began
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(kind).ru_maxrss for kind in kinds) * 1024
    print(json.dumps({"seconds": seconds, "peak": peak, "found": found}), file=answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
