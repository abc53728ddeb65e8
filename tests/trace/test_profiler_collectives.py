"""Collectives as PyTorch writes them, over Gloo and over NCCL."""

import pytest

from hpml.errors import UserError
from hpml.trace.profiler.collectives import collectives
from hpml.trace.profiler.communication import communication, communication_by_step
from hpml.trace.profiler.read import read

from .planted_trace import GLOO, STREAM, Planted
from .played_ranks import play


def traces(tmp_path, *ranks):
    for rank, one in enumerate(ranks):
        one.write(tmp_path / f"rank{rank}.json")
    return [read(tmp_path / f"rank{rank}.json") for rank in range(len(ranks))]


def two(events):
    """Two ranks with a step of 1,000 µs and the same events."""
    for rank in range(2):
        one = Planted(rank)
        one.step(0, 0, 1000)
        events(one, rank)
        yield one


def test_a_third_collective_was_called_before_a_thread_of_gloo_took_it(tmp_path):
    def events(one, rank):
        for call in (10, 20, 30):
            one.event("c10d::allreduce_", call, call + 5)
        one.all_reduce(14, 200)
        one.all_reduce(24, 300, GLOO + 1)
        one.all_reduce(200, 400)

    *_, third = collectives(traces(tmp_path, *two(events)))
    assert third.issued.tolist() == pytest.approx([30e-6] * 2)
    assert third.start.tolist() == pytest.approx([200e-6] * 2)
    assert third.end.tolist() == pytest.approx([400e-6] * 2)


def test_the_two_names_of_an_operation_are_one(tmp_path):
    def events(one, rank):
        for call, runs in (
            ("c10d::_allgather_base_", "gloo:all_gather"),
            ("c10d::reduce_scatter_", "gloo:reduce_scatter"),
            ("c10d::barrier", "gloo:barrier"),
        ):
            one.event(call, 10, 15)
            one.mark(runs, 50, 100, GLOO)

    found = collectives(traces(tmp_path, *two(events)))
    assert {c.operation for c in found} == {"all_gather", "reduce_scatter", "barrier"}
    assert all(c.issued[0] == pytest.approx(10e-6) for c in found)


def test_of_nccl_the_kernels_count_and_the_other_kernels_hide_them(tmp_path):
    """Rank 1's kernel begins 100 µs later: rank 0's is there, and waits for it."""

    def events(one, rank):
        late = 100 * rank
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        one.event("c10d::allreduce_", 10, 15)
        one.mark("nccl:all_reduce", 10, 15)
        one.event(name, 200 + late, 500, "kernel", STREAM)
        one.event("ampere_sgemm_128x64_nn", 350, 420, "kernel", STREAM + 1)

    ranks = traces(tmp_path, *two(events))
    (one,) = collectives(ranks)
    assert one.operation == "all_reduce"
    assert one.start.tolist() == pytest.approx([200e-6, 300e-6])
    early, late = communication(ranks)
    assert early.hidden == pytest.approx(70e-6)
    assert early.waited == pytest.approx(100e-6)
    assert early.transferred == pytest.approx(130e-6)
    assert late.waited == pytest.approx(0, abs=1e-9)


def test_a_collective_has_the_size_of_its_tensors(tmp_path):
    def events(one, rank):
        one.event(
            "gloo:all_reduce", 50, 90, "user_annotation", GLOO, **{"Input Dims": [[64, 512], [512]]}
        )

    (found,) = collectives(traces(tmp_path, *two(events)))
    assert found.elements == 64 * 512 + 512


def test_ranks_with_different_collectives_are_not_matched():
    few, many = play([[0.01] * 2] * 2), play([[0.01] * 3] * 2)
    with pytest.raises(UserError, match="step 5: rank 0 recorded 0 all_reduce, rank 1 2"):
        collectives([few[0], many[1]])


def test_each_step_by_itself_and_all_at_once_are_the_same():
    ranks = play([[0.01, 0.02, 0.03], [0.03, 0.01, 0.02]])
    found = communication_by_step(ranks)
    assert list(found) == [3, 4, 5]
    for number, of_step in found.items():
        for one, alone in zip(of_step, communication(ranks, number), strict=True):
            assert (one.hidden, one.exposed) == (alone.hidden, alone.exposed)
