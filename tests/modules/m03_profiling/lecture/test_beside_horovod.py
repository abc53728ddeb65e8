"""torch.profiler's trace and Horovod's timeline of one step, on one clock."""

import pytest

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import horovod_profiled
from hpml.modules.m03_profiling.lecture.beside_horovod import Bar, one_step, one_step_picture
from hpml.ranks import flavour
from hpml.trace.horovod_timeline import Operation, Span, Timeline
from hpml.trace.profiler import read

from ....trace.planted_trace import Planted

BEGAN = 1790857026.0  # the trace's clock is 0, seconds since 1970
MS = 1e-3


@pytest.fixture
def trace(tmp_path):
    """Two steps of 100 ms from 1 s on: forward 30 ms, backward 40, optimizer 30."""
    planted = Planted(rank=0)
    for number, start in ((3, 1_000_000), (4, 1_100_000)):
        planted.step(number, start, start + 100_000)
        planted.mark("forward", start, start + 30_000)
        planted.mark("backward", start + 30_000, start + 70_000)
        planted.mark("optimizer", start + 70_000, start + 100_000)
    return read.read(planted.write(tmp_path / "rank0.pt.trace.json"))


def reduced(tensor: str, asked: float, sent: float, back: float) -> Operation:
    """Seconds since Horovod started, which it did half a second before the first step."""
    spans = (Span("MEMCPY_IN_FUSION_BUFFER", sent, sent), Span("GLOO_ALLREDUCE", sent, back))
    negotiated = Span("NEGOTIATE_ALLREDUCE", asked, sent)
    return Operation(tensor, "ALLREDUCE", negotiated, (), Span("ALLREDUCE", sent, back), spans)


def recorded(*operations: Operation) -> Timeline:
    return Timeline(operations, started=BEGAN + 0.5)


TWO = (
    reduced("allreduce.head.weight", 0.55, 0.58, 0.585),
    reduced("allreduce.stem.weight", 0.57, 0.58, 0.59),
    reduced("allreduce.head.weight", 0.65, 0.66, 0.67),
)


def test_what_horovod_did_in_a_step_is_at_the_steps_own_time(trace):
    step = one_step(trace, recorded(*TWO), 3)
    assert (step.number, step.seconds) == (3, pytest.approx(0.1))
    assert list(step.gradients) == ["head.weight", "stem.weight"]
    transfer = step.gradients["head.weight"][-1]
    assert (transfer.what, transfer.begin, transfer.end) == (
        "transfer", pytest.approx(80 * MS, abs=1e-5), pytest.approx(85 * MS, abs=1e-5),
    )  # fmt: skip
    assert step.end_of("backward") == pytest.approx(70 * MS)


def test_what_another_rank_asks_for_from_its_next_step_is_not_in_this_one(trace):
    early = reduced("allreduce.stem.weight", 0.599, 0.66, 0.67)
    step = one_step(trace, recorded(*TWO, early), 3)
    assert step.sent == pytest.approx(90 * MS, abs=1e-5)
    assert "stem.weight" in one_step(trace, recorded(*TWO, early), 4).gradients


def test_of_the_optimizers_time_what_is_before_the_last_gradient_is_waiting(trace):
    step = one_step(trace, recorded(*TWO), 3)
    assert step.sent == pytest.approx(90 * MS, abs=1e-5)
    assert step.seconds_of("optimizer") == pytest.approx(30 * MS)
    assert step.waited == pytest.approx(20 * MS, abs=1e-5)
    # All gradients were back before backward was over
    assert one_step(trace, recorded(*TWO), 4).waited == pytest.approx(0, abs=1e-9)


def test_files_of_different_jobs_get_one_line(trace):
    with pytest.raises(UserError, match="are both files of the same job"):
        one_step(trace, Timeline(TWO, started=BEGAN + 60))
    with pytest.raises(UserError, match="no step 7 in it: 2 others are"):
        one_step(trace, recorded(*TWO), 7)


def test_the_picture_has_a_row_for_each_gradient(trace):
    figure = one_step_picture(one_step(trace, recorded(*TWO), 3), title="it waits")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["torch.profiler", "head", "stem"]


@pytest.mark.skipif(flavour.missing("horovod") is not None, reason="needs Horovod for PyTorch")
@pytest.mark.measures
def test_of_a_real_job_both_files_agree_on_the_clock(tmp_path):
    trace, timeline = horovod_profiled.record(tmp_path)
    assert (trace.rank, trace.world_size) == (0, 2)
    step = one_step(trace, timeline)
    assert "head.weight" in step.gradients
    # The optimizer cannot be done before the last gradient is back, nor that before backward began.
    began = min(bar.begin for bar in step.phases if bar.what == "backward")
    assert began < step.sent < step.end_of("optimizer")
    assert all(isinstance(bar, Bar) for bars in step.gradients.values() for bar in bars)
