"""Where a step's seconds go: planted programs, and programs that PyTorch ran."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hpml.errors import UserError
from hpml.trace.profiler.phases import PHASES
from hpml.trace.profiler.read import read
from hpml.trace.profiler.shares import PARTS, Shares, mean, shares, shares_of_steps

from .planted_trace import AUTOGRAD, AUTOGRAD_NODE, GLOO, MAIN, STREAM, Planted


def microseconds(found: Shares) -> dict[str, float]:
    """The parts that are not nothing, with what is hidden."""
    every = found.parts() | {"hidden": found.hidden}
    return {part: round(1e6 * s, 2) for part, s in every.items() if round(1e6 * s, 2)}


def of(planted: Planted, tmp_path, step=1) -> dict[str, float]:
    return microseconds(shares(read(planted.write(tmp_path / "trace.json")), step))


def test_phases_that_the_program_marked(tmp_path):
    planted = Planted()
    planted.step(1, 0, 1000)
    for i, phase in enumerate(PHASES):
        planted.mark(phase, 100 * i, 100 * i + 90)
        planted.event("aten::mul", 100 * i + 5, 100 * i + 50)  # nested: counted once
        planted.event("aten::add", 100 * i + 6, 100 * i + 20)
    assert of(planted, tmp_path) == dict.fromkeys(PHASES, 90) | {"other": 550}


def test_phases_that_pytorch_marks_by_itself(tmp_path):
    planted = Planted()
    planted.step(1, 0, 1000)
    planted.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 110)
    planted.event("aten::mul", 120, 150)  # no gradient goes through it: not forward
    planted.event("aten::linear", 200, 250)
    planted.event("aten::addmm", 210, 240)
    planted.event("aten::relu", 280, 300)
    planted.mark("Optimizer.zero_grad#SGD.zero_grad", 310, 340)
    planted.event(AUTOGRAD_NODE + "ReluBackward0", 400, 450)
    planted.event(AUTOGRAD_NODE + "AddmmBackward0", 460, 600)
    planted.link(1, 210, 460)
    planted.link(2, 280, 400)
    planted.mark("Optimizer.step#SGD.step", 700, 780)
    assert of(planted, tmp_path) == {
        "loading": 100,
        "forward": 90,  # from the first operator to the last, Python between them included
        "backward": 200,
        "optimizer": 110,
        "other": 500,
    }


def test_the_inner_of_two_names_counts(tmp_path):
    planted = Planted()
    planted.step(1, 0, 1000)
    planted.mark("forward", 0, 800)
    planted.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 100, 300)
    planted.event(AUTOGRAD_NODE + "MulBackward0", 400, 700)
    planted.mark("forward", 500, 600)  # computed again, for backward: checkpointing
    assert of(planted, tmp_path) == {"loading": 200, "forward": 400, "backward": 200, "other": 200}


def test_autograd_s_own_thread_is_backward(tmp_path):
    planted = Planted()
    planted.step(1, 0, 1000)
    planted.event(AUTOGRAD_NODE + "ReluBackward0", 400, 450, tid=AUTOGRAD)
    planted.event(AUTOGRAD_NODE + "AddmmBackward0", 460, 600, tid=AUTOGRAD)
    assert of(planted, tmp_path) == {"backward": 200, "other": 800}


def test_communication_behind_computation_is_hidden_and_the_rest_exposed(tmp_path):
    planted = Planted(rank=0)
    planted.step(1, 0, 1000)
    planted.mark("backward", 0, 900)
    planted.event("aten::mm", 0, 300)
    planted.all_reduce(100, 500)
    planted.all_reduce(200, 400, tid=GLOO + 1)  # two at once: counted once
    planted.event("aten::mm", 450, 480)
    planted.all_reduce(850, 1100)  # goes on in the next step
    assert of(planted, tmp_path) == {
        "backward": 900 - 170 - 50,
        "communication": 150 + 20 + 150,
        "hidden": 200 + 30,
    }


def test_an_operator_that_calls_a_collective_waits_in_it(tmp_path):
    planted = Planted(rank=0)
    planted.step(1, 0, 1000)
    planted.mark("forward", 0, 1000)
    planted.event("GatherFromRanks", 100, 700)  # a torch.autograd.Function
    planted.event("c10d::allgather_", 200, 210)
    planted.all_reduce(200, 600)
    planted.event("aten::cat", 550, 650)
    assert of(planted, tmp_path) == {"forward": 650, "communication": 350, "hidden": 50}


def test_loading_behind_which_a_collective_hides_needs_no_operators(tmp_path):
    planted = Planted(rank=0)
    planted.step(1, 0, 1000)
    planted.mark("loading", 0, 1000)
    planted.all_reduce(200, 600)
    assert of(planted, tmp_path) == {"loading": 1000, "hidden": 400}


def test_of_a_gpu_a_kernel_counts_for_the_phase_that_launched_it(tmp_path):
    planted = Planted(rank=0)
    planted.step(1, 0, 1000)
    planted.event("ProfilerStep#1", 20, 900, "gpu_user_annotation", STREAM)  # not another step
    planted.mark("forward", 0, 100)
    planted.mark("backward", 100, 200)
    planted.mark("optimizer", 200, 1000)
    launched = [
        ("sgemm", 50, 60, 300),
        ("sgemm", 150, 300, 500),
        ("ncclDevKernel_Sum", 160, 400, 800),
    ]
    for i, (kernel, launch, start, end) in enumerate(launched):
        tid = STREAM + (kernel != "sgemm")
        planted.event("cudaLaunchKernel", launch, launch + 5, "cuda_runtime", correlation=i + 1)
        planted.event(kernel, start, end, "kernel", tid, correlation=i + 1)
    assert of(planted, tmp_path) == {
        "forward": 60 + 240,
        "backward": 200,
        "communication": 300,
        "optimizer": 200,
        "hidden": 100,
    }


# A program as what its main thread does in each microsecond, and when collectives run.
work = st.lists(
    st.tuples(st.sampled_from([*PHASES, None]), st.booleans(), st.integers(1, 30)), max_size=12
)
collectives = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 60), st.sampled_from([GLOO, GLOO + 1])),
    max_size=4,
)


@settings(max_examples=50)
@given(work, collectives, st.integers(0, 10**9))
def test_the_parts_are_those_that_were_planted_and_add_up_to_the_step(
    tmp_path_factory, work, collectives, clock
):
    planted, truth, now = Planted(rank=0), dict.fromkeys([*PARTS, "hidden"], 0), 0
    under_way = {t for start, length, _ in collectives for t in range(start, start + length)}
    for phase, computes, length in work:
        if phase is not None:
            planted.mark(phase, clock + now, clock + now + length)
        if computes:
            planted.event("aten::mm", clock + now, clock + now + length)
            planted.event("aten::empty", clock + now, clock + now + length / 2)
        busy = computes or phase in ("loading", "transforms")
        for t in range(now, now + length):
            exposed = t in under_way and not busy
            truth["communication" if exposed else phase or "other"] += 1
            truth["hidden"] += t in under_way and busy
        now += length
    planted.step(5, clock, clock + now)
    for start, length, thread in collectives:
        planted.all_reduce(clock + start, clock + start + length, thread)
    trace = read(planted.write(tmp_path_factory.getbasetemp() / "planted.json"))
    found = shares(trace, 5)
    assert microseconds(found) == pytest.approx({k: v for k, v in truth.items() if v}, abs=0.02)
    assert found.step == pytest.approx(now * 1e-6, abs=1e-8)


def test_the_mean_step_and_each_step(tmp_path):
    planted = Planted()
    for number, length in ((3, 100), (4, 300)):
        planted.step(number, 1000 * number, 1000 * number + 500)
        planted.mark("forward", 1000 * number, 1000 * number + length)
    trace = read(planted.write(tmp_path / "trace.json"))
    each = shares_of_steps(trace)
    assert [microseconds(each[n])["forward"] for n in (3, 4)] == [100, 300]
    assert microseconds(shares(trace)) == {"forward": 200, "other": 300}
    assert mean(each.values()) == shares(trace)
    assert shares(trace).fraction("forward") == pytest.approx(0.4)
    assert shares(trace).largest == "other"
    with pytest.raises(UserError, match="step 7 was not profiled: name one of 3, 4"):
        shares(trace, 7)


def test_a_trace_without_steps_gets_one_line(tmp_path):
    planted = Planted()
    planted.mark("forward", 0, 10)
    with pytest.raises(UserError, match=r"no step is marked in it: call prof\.step\(\)"):
        of(planted, tmp_path)


@pytest.mark.parametrize("name", ["## forward ##", "DistributedDataParallel.forward"])
def test_forward_is_known_by_the_marks_of_others(tmp_path, name):
    planted = Planted()
    planted.step(1, 0, 1000)
    planted.mark(name, 100, 500)
    assert of(planted, tmp_path)["forward"] == pytest.approx(400)


def test_the_table_says_where_nothing_marks_a_phase():
    lines = str(Shares(0, 0, 0, 0.004, 0, 0, 0.009, hidden=0)).splitlines()
    assert lines[2].split() == ["forward", "not", "marked"]
    assert lines[1].split()[1] == "0.00"


def test_the_table_has_every_part():
    found = Shares(0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.009, hidden=0.01)
    lines = str(found).splitlines()
    assert lines[0].split() == ["loading", "1.00", "ms", "3.3", "%"]
    assert [line.split()[0] for line in lines[:7]] == list(PARTS)
    assert lines[-2].split() == ["step", "30.00", "ms", "100.0", "%"]
    assert lines[-1].split() == ["communication", "hidden", "10.00", "ms"]


def test_a_program_that_pytorch_ran_has_every_phase(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(50, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    data = torch.utils.data.DataLoader(torch.randn(40, 50), batch_size=10)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(tmp_path / "a.json")),
    ) as profiler:
        for batch in data:
            with torch.profiler.record_function("transforms"):
                batch = batch * 2
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    trace = read(tmp_path / "a.json")
    for number, found in shares_of_steps(trace).items():
        assert number in (2, 3)
        assert found.communication == found.hidden == 0
        assert min(found.parts()[phase] for phase in PHASES) > 0
    assert trace.threads[trace.main_thread][1] != str(MAIN)
