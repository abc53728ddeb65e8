"""The pipeline's schedule as data, and the stages that a network is cut into."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hpml.models import VisionTransformer
from hpml.train.pipeline import Stage, one_forward_one_backward

STAGES, COUNTS = st.integers(1, 6), st.integers(1, 12)


@given(STAGES, COUNTS)
def test_each_micro_batch_goes_forward_and_then_backward_once_in_order(stages, count):
    for stage in range(stages):
        steps = list(one_forward_one_backward(stage, stages, count))
        for what in ("forward", "backward"):
            assert [number for kind, number in steps if kind == what] == list(range(count))
        assert all(steps.index(("forward", n)) < steps.index(("backward", n)) for n in range(count))


@given(STAGES, COUNTS)
def test_a_stage_holds_activations_of_no_more_micro_batches_than_stages_follow(stages, count):
    for stage in range(stages):
        held = most = 0
        for what, _ in one_forward_one_backward(stage, stages, count):
            held += 1 if what == "forward" else -1
            most = max(most, held)
        assert most == min(count, stages - stage)


@given(STAGES, COUNTS)
def test_no_stage_waits_for_ever(stages, count):
    """Each step's input is made by a step that can come before it: forwards down, then up."""
    left = [list(one_forward_one_backward(stage, stages, count)) for stage in range(stages)]
    done = set()
    while any(left):
        ready = [
            stage
            for stage, (what, number) in ((s, steps[0]) for s, steps in enumerate(left) if steps)
            if (what == "forward" and (stage == 0 or (stage - 1, what, number) in done))
            or (what == "backward" and (stage == stages - 1 or (stage + 1, what, number) in done))
        ]
        assert ready, left
        for stage in ready:
            done.add((stage, *left[stage].pop(0)))


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_stages_one_after_another_are_the_network_and_share_no_parameter(stages):
    torch.manual_seed(0)
    network = VisionTransformer(width=16, depth=4, heads=4, patch=8)
    images = torch.randn(3, 3, 32, 32)
    expected = network(images)
    parts = [Stage(network, stage, stages) for stage in range(stages)]
    assert torch.equal(torch.nn.Sequential(*parts)(images), expected)
    names = [name for part in parts for name, _ in part.named_parameters()]
    assert sorted(names) == sorted(name for name, _ in network.named_parameters())
