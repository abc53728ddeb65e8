"""What is alive when: recorded tensors, counted in a second way, and placed in memory."""

from itertools import accumulate

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile

from hpml.modules.m04_frameworks.lecture.live_tensors import (
    KINDS,
    LiveTensor,
    Recording,
    offsets,
    record,
)
from hpml.modules.m04_frameworks.lecture.live_tensors_picture import draw


def made(device: str = "cpu"):
    """A small network, its loss as a function, and all that is there before."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(40, 300), nn.ReLU(), nn.Linear(300, 200), nn.GELU())
    model = nn.Sequential(model, nn.Linear(200, 1)).to(device)
    batch = torch.randn(64, 40, device=device)
    return model, lambda: model(batch).square().mean(), [*model.parameters(), batch]


def recorded(device: str = "cpu") -> Recording:
    _, forward, before = made(device)
    return record(forward, before)


def test_the_peak_is_the_one_that_the_allocator_reports():
    """A second way of counting: PyTorch's profiler sees each allocation of the CPU."""
    _, forward, before = made()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        forward().backward()
    events = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    highest = max(accumulate(event.nbytes() for event in events))
    there = sum(tensor.nbytes for tensor in before)
    assert recorded().peak - there == highest


def test_what_is_kept_is_what_autograd_saves_and_the_loss():
    model, forward, before = made()
    own = {tensor.untyped_storage()._cdata for tensor in before}
    saved = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            saved[storage._cdata] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = forward()
    recording = recorded()
    assert sum(saved.values()) + loss.nbytes == recording.total("kept for backward")
    gradients = sum(parameter.nbytes for parameter in model.parameters())
    assert recording.total("gradients") == gradients
    assert recording.total("weights and batch") == sum(tensor.nbytes for tensor in before)


def test_the_same_is_recorded_each_time_and_without_numbers():
    first = recorded()
    assert first == recorded() == recorded("meta")
    assert 0 < first.turn < len(first.operators)
    assert {one.kind for one in first.tensors} < set(KINDS)


def test_the_sum_of_all_kinds_is_what_is_alive():
    recording = recorded()
    by_kind = [recording.live(kind) for kind in KINDS]
    assert [sum(parts) for parts in zip(*by_kind, strict=True)] == recording.live()
    assert recording.live()[recording.peak_step] == recording.peak
    assert all(a <= b for a, b in zip(recording.live(), recording.never_freed(), strict=True))


def test_views_are_no_steps():
    """A linear layer transposes its weight, which moves nothing."""
    operators = recorded().operators
    assert not {"t", "detach", "expand", "view"} & set(operators)
    assert operators[:3] == ("addmm", "relu", "addmm")


def test_an_in_place_operator_makes_nothing():
    def all_of(relu):
        x = torch.randn(100, requires_grad=True)
        return record(lambda: relu(x * 2).sum(), [x]).never_freed()[-1]

    assert all_of(torch.relu) - all_of(torch.relu_) == 400


def test_a_gradient_that_is_there_already_is_refused():
    _, forward, before = made()
    forward().backward()
    with pytest.raises(ValueError, match="zero_grad"):
        record(forward, before)


@st.composite
def lives(draw):
    born = draw(st.integers(-1, 20))
    return LiveTensor("op", draw(st.integers(1, 50)), born, draw(st.integers(born, 25)), KINDS[-1])


@given(st.lists(lives(), max_size=25))
def test_no_two_that_are_alive_at_a_time_overlap_in_memory(tensors):
    places = offsets(tensors)
    for number, one in enumerate(tensors):
        assert places[number] >= 0
        for other in range(number):
            beside = tensors[other]
            if one.born <= beside.last and beside.born <= one.last:
                apart = places[number] >= places[other] + beside.nbytes
                assert apart or places[other] >= places[number] + one.nbytes


def test_one_block_is_at_least_the_peak_and_little_more_here():
    recording = recorded()
    places = zip(offsets(recording.tensors), recording.tensors, strict=True)
    top = max(at + one.nbytes for at, one in places)
    assert recording.peak <= top <= 1.2 * recording.peak


def test_the_picture_has_a_bar_for_each_tensor_that_can_be_seen():
    recording = recorded()
    figure = draw(recording, title="All of it")
    above, below = figure.axes
    large = [one for one in recording.tensors if one.nbytes > recording.peak / 1000]
    assert len(below.patches) >= len(large)
    assert [len(axes.lines) for axes in (above, below)] == [3, 1]
    assert figure.get_suptitle() == "All of it"
    for axes in figure.axes:
        assert "MB" in axes.get_ylabel()
