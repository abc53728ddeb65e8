"""A trace of a GPU: the times that were planted, which HolisticTraceAnalysis 0.5.0 found too."""

import pytest

from hpml.trace.profiler import intervals
from hpml.trace.profiler.phases import phases
from hpml.trace.profiler.read import read

from .planted_trace import STREAM, Planted

# (kernel, launched at, from, until, stream) in microseconds of one step of 1000
KERNELS = (
    ("sgemm_128x64", 10, 50, 250, STREAM),
    ("ncclDevKernel_AllReduce_Sum_f32_RING", 20, 150, 400, STREAM + 1),
    ("elementwise_kernel", 30, 260, 300, STREAM),
    ("sgemm_128x64", 40, 600, 700, STREAM),
)
COMPUTING, COMMUNICATION, HIDDEN = 340, 250, 140
STEPS = 3


@pytest.fixture
def path(tmp_path):
    made = Planted(rank=0)
    for number in range(STEPS):
        at = 1000 * number
        made.step(number, at, at + 1000)
        for kernel, launched, start, end, stream in KERNELS:
            same = {"correlation": len(made.events), "External id": len(made.events)}
            launch = (at + launched, at + launched + 5)
            made.event("cudaLaunchKernel", *launch, "cuda_runtime", **same)
            made.events[-1]["args"] |= same
            made.event(kernel, at + start, at + end, "kernel", stream, stream=stream, device=0)
            made.events[-1] |= {"pid": 0, "args": made.events[-1]["args"] | same}
    return made.write(tmp_path / "rank0.json")


def test_computing_and_communication_and_what_is_hidden_of_it(path):
    found = phases(read(path))
    hidden = intervals.intersect(found.communication, found.computing)
    times = [intervals.length(t) for t in (found.computing, found.communication, hidden)]
    expected = [COMPUTING, COMMUNICATION, HIDDEN]
    assert times == pytest.approx([STEPS * 1e-6 * time for time in expected])
