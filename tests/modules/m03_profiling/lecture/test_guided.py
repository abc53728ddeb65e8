"""A step of a GPU's trace, read in five places."""

import numpy as np
import pytest

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import guided
from hpml.record.kept import SHIPPED
from hpml.trace.profiler.read import read

from ....trace.planted_trace import STREAM, Planted


def planted(tmp_path, **left_out):
    made = Planted()
    made.step(9, 0, 1000)
    made.mark("loading", 0, 400)
    made.mark("forward", 400, 1000)
    if "copy" not in left_out:
        name = "Memcpy HtoD (Pageable -> Device)"
        made.event(name, 450, 500, "gpu_memcpy", STREAM, correlation=4)
    made.event("cudaMemcpyAsync", 430, 455, "cuda_runtime", correlation=4)
    made.event("cudaLaunchKernel", 460, 470, "cuda_runtime", correlation=5)
    made.event("gemm", 600, 900, "kernel", STREAM, correlation=5)
    made.event("relu", 910, 920, "kernel", STREAM, correlation=6)
    made.event("cudaStreamSynchronize", 920, 930, "cuda_runtime", correlation=8)
    return read(made.write(tmp_path / "trace.json"))


def test_the_five_places_are_found(tmp_path):
    trace = planted(tmp_path)
    seen = guided.reading(trace)
    names = [trace.names[trace.name[i]] for i in (seen.copy, seen.kernel, seen.launch, *seen.waits)]
    assert names == [
        *("Memcpy HtoD (Pageable -> Device)", "gemm", "cudaLaunchKernel", "cudaStreamSynchronize")
    ]
    assert seen.gap == pytest.approx((0.0, 450e-6))
    assert seen.meanwhile == "loading"
    assert seen.idle == pytest.approx(0.64)
    assert seen.held == pytest.approx(25e-6)  # of the host, in the call of the copy
    assert seen.queued == pytest.approx(130e-6)


def test_a_step_without_a_copy_cannot_be_read_so(tmp_path):
    with pytest.raises(UserError, match="no copy"):
        guided.reading(planted(tmp_path, copy=True))


def test_the_courses_trace_is_read_and_each_place_is_in_the_picture():
    trace = read(SHIPPED / "steps_bad.pt.trace.json.gz")
    seen = guided.reading(trace)
    assert seen.meanwhile == "loading"
    assert trace.end[seen.launch] < trace.start[seen.kernel]
    assert 0.5 < seen.idle < 1
    (axes,) = guided.picture(trace, seen, title="A message").axes
    spots = {text.get_text(): text.get_position() for text in axes.texts}
    assert set("12345") <= set(spots)
    assert 0 < spots["2"][0] < spots["3"][0] < spots["4"][0] < spots["5"][0]
    assert np.diff(axes.get_xlim()) == pytest.approx(1e3 * seen.step.seconds)
