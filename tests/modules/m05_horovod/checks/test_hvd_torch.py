"""Exercise hvd_torch: what its judges say of a good run with one change."""

from dataclasses import replace
from itertools import chain

import pytest
import torch

from hpml.modules.m05_horovod.checks._torch_script import BATCH, LEARNING_RATE, LENGTH, PATH, serial
from hpml.modules.m05_horovod.checks.hvd_torch import CHECK

START, SAMPLES, STEPS, CARRY_ON, WRITER = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def test_inputs_differ_between_ranks_and_seeds():
    stages = [CHECK.inputs(seed, 2)[name] for seed in (3, 4) for name in ("begin", "carry on")]
    assert len({rank["model"] for stage in stages[:2] for rank in stage}) == 4
    assert [stage[0]["model"] for stage in stages[:2]] != [s[0]["model"] for s in stages[2:]]
    images = [stage[0]["images"] for stage in stages]
    assert torch.equal(images[0], images[1])
    assert not torch.equal(images[0], images[2])


def test_the_mistakes_that_hints_are_for_lead_elsewhere():
    """Otherwise a judge would blame the wrong one."""
    for world_size in (2, 3, 4):
        expected = CHECK.expect(CHECK.inputs(9, world_size), world_size)
        for stage, found in expected.items():
            after = [found["states"][1], found["mistakes"]["unscaled"], found["mistakes"]["sum"]]
            after += found["alone"]
            if stage == "carry on":
                after.append(found["mistakes"]["no_optimizer"])
            weights = [state["4.weight"] for state in after]
            for number, one in enumerate(weights):
                for other in weights[:number]:
                    assert (one - other).abs().max() > 1e-6


def test_ranks_with_shares_are_one_process_with_the_whole_batch():
    run = CHECK.inputs(6, 2)["begin"][0]
    one = serial(run, 2 * BATCH, LEARNING_RATE, most=1)["states"]
    shares = [serial(run, BATCH, LEARNING_RATE, most=1, shard=(r, 2))["states"] for r in (0, 1)]
    for name, tensor in one[1].items():
        mean = (shares[0][1][name] + shares[1][1][name]) / 2
        torch.testing.assert_close(tensor, mean, rtol=1e-12, atol=1e-12)


def moved(step):
    """The value with its weights a little off from a step on."""

    def change(value):
        states = [
            {name: tensor + 1e-6 * (number >= step) for name, tensor in state.items()}
            for number, state in enumerate(value["states"])
        ]
        return value | {"states": states}

    return change


def test_each_start_is_told_apart_and_so_is_another_way(good, with_value):
    changed = with_value(good, 1, moved(3), "begin")
    assert START(changed) is None
    problem = STEPS(changed)
    assert problem.hint == "weights"
    assert "after step 3, rank 1's" in problem.message
    assert CARRY_ON(changed) is None
    assert CARRY_ON(with_value(good, 1, moved(0), "carry on")).hint == "no_broadcast"


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda taken: [], "no_samples"),
        (lambda taken: taken[:-1], "samples"),
        (lambda taken: [*taken[: LENGTH // 2]] * 2, "samples"),
        (lambda taken: [*taken[1:], taken[0]], "samples"),
    ],
)
def test_what_is_wrong_with_a_share_is_said(good, with_taken, change, hint):
    changed = with_taken(good, 1, lambda own: [change([*chain(*own)])], "begin")
    assert SAMPLES(changed).hint == hint
    assert STEPS(changed).hint == hint


def test_who_writes_is_seen_in_the_folders(good):
    def left(files):
        begun = replace(good.stages["begin"], files=files)
        return WRITER(replace(good, stages={**good.stages, "begin": begun}))

    assert left({}).hint == "no_file"
    assert left({"begin 0/checkpoint.pt.0": 5}).hint == "no_file"
    other = left({PATH: 5, "begin 1/checkpoint.pt": 5})
    assert (other.hint, other.message) == ("writers", "besides rank 0, rank 1 wrote checkpoint.pt")
    assert left(None).hint == "writers"
    assert left({PATH: 5, "begin 0/log.txt": 5}) is None


def test_the_file_is_held_to_the_last_state(good, with_value):
    def without(part):
        value = good.stages["begin"].values[0]["saved"]
        return value | {part: {name: tensor + 1 for name, tensor in value[part].items()}}

    for found in ("EOFError: short", without("model"), without("momenta")):
        other = with_value(good, 0, lambda value, found=found: value | {"saved": found}, "begin")
        assert WRITER(other).hint == "file"
