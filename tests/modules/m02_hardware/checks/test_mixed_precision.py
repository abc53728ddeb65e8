"""Exercise mixed_precision: what separates right from wrong in its numbers, and its judges."""

import math
from dataclasses import replace

import pytest
import torch

from hpml.modules.m02_hardware.checks import _scaled_gradients as scaling
from hpml.modules.m02_hardware.checks._two_precisions import (
    CLOSE,
    LEARNING_RATE,
    STEPS,
    apart,
    draw_batches,
    draw_weights,
    off_grid,
    sums,
)
from hpml.modules.m02_hardware.checks.instructors._trainings import (
    in_bfloat16,
    losses_in_bfloat16,
    trained,
    with_gradients,
)
from hpml.modules.m02_hardware.checks.mixed_precision import (
    CHECK,
    PARITY,
    STAGE,
    serve,
    wrong_dtypes,
)
from hpml.ranks.evidence import Diagnosis

COMPUTED, PARITY_HOLDS, STEPS_IN_BFLOAT16, GOOD, OVERFLOW, GROWTH = (
    claim.judge for claim in CHECK.claims
)


def in_float16(a, b):
    return (a.half() @ b.half()).float()


def in_float32_rounded(a, b):
    return (a.bfloat16().float() @ b.bfloat16().float()).bfloat16().float()


def not_rounded(a, b):
    return a.bfloat16().float() @ b.bfloat16().float()


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 1, 5)


@pytest.fixture
def with_record(with_value):
    """`with_record(run, part, value)`: with another `part` of what the first stage returned."""

    def changed(run, part, value):
        return with_value(run, 0, lambda record: record | {part: value}, STAGE)

    return changed


def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_are_fresh_for_every_seed():
    one, other = (CHECK.inputs(seed, 1) for seed in (1, 2))
    assert not torch.equal(one[STAGE][0]["weights"]["w1"], other[STAGE][0]["weights"]["w1"])
    first, second = (each[scaling.STAGE][0]["steps"][0]["w"] for each in (one, other))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("seed", range(4))
def test_right_answers_are_close_and_mistakes_are_not(seed):
    draw = torch.Generator().manual_seed(seed)
    weights, (batch,) = draw_weights(draw), draw_batches(draw, 1)
    _, gradients = with_gradients(weights, batch, product=in_bfloat16)

    def far(**how):
        play = {"seed": seed}
        return apart(sums(with_gradients(weights, batch, **how)[1], play), sums(gradients, play))

    assert far(product=in_float32_rounded) < CLOSE / 2
    assert far() > 10 * CLOSE
    assert far(product=in_float16) > 10 * CLOSE
    assert far(product=not_rounded) > 2 * CLOSE
    assert far(product=in_bfloat16, norm=torch.bfloat16) > 2 * CLOSE
    assert far(product=in_bfloat16, logits=torch.bfloat16) > 2 * CLOSE
    assert off_grid(gradients["w1"]) == off_grid(gradients["w2"]) == 0
    assert off_grid(gradients["gain"]) > 0.15


@pytest.mark.parametrize("seed", range(4))
def test_weights_in_bfloat16_lose_what_parity_asks_for(seed):
    draw = torch.Generator().manual_seed(seed)
    weights, batches = draw_weights(draw), draw_batches(draw, STEPS)
    losses, _ = trained(weights, batches)
    rounded = losses_in_bfloat16(weights, batches)
    mixed = []
    for batch in batches:
        value, gradients = with_gradients(weights, batch, product=in_bfloat16)
        mixed.append(value.item())
        weights = {name: weights[name] - LEARNING_RATE * gradients[name] for name in weights}
    assert all(abs(a - b) < PARITY / 2 for a, b in zip(mixed, losses, strict=True))
    assert rounded[-1] - losses[-1] > 4 * PARITY


@pytest.mark.parametrize("seed", range(4))
def test_gradients_are_as_far_apart_as_their_sums(seed):
    draw = torch.Generator().manual_seed(seed)
    one = {name: torch.randn(size, generator=draw) for name, size in {"w": 5000, "b": 8}.items()}
    for far, name in ((0.1, "w"), (1e-3, "b")):
        off = torch.randn(one[name].shape, generator=draw)
        other = one | {name: one[name] + far * one[name].norm() * off / off.norm()}
        found = [sums(each, {"seed": seed}) for each in (other, one)]
        assert apart(*found) == pytest.approx(far, rel=0.2)
    assert math.isnan(apart(sums(one | {"b": one["b"] * math.nan}, {"seed": seed}), found[1]))
    assert max(map(len, found[0].values())) <= 256


def test_numbers_of_bfloat16_are_on_the_grid_and_others_are_not():
    numbers = torch.randn(1000, generator=torch.Generator().manual_seed(1))
    assert off_grid(numbers.bfloat16().float()) == 0
    assert 0.2 < off_grid(numbers) < 0.3
    assert off_grid(torch.zeros(3)) == 0


def test_batches_are_served_once_and_in_order():
    (rank,) = CHECK.inputs(1, 1)[STAGE]
    given, reply = serve([rank])
    assert "batches" not in given[0]
    for batch in rank["batches"]:
        assert reply(0, "batch")[0].value is batch
    with pytest.raises(ValueError, match="there is no"):
        reply(0, "batch")


def test_a_loss_that_is_none_or_bfloat16_is_named(good, with_record):
    sampled = good.stages[STAGE].values[0]["sampled"]
    for loss, hint in ((None, "returns_loss"), (torch.tensor(9.0).bfloat16(), "reductions")):
        changed = [[loss, sampled[0][1]], *sampled[1:]]
        assert COMPUTED(with_record(good, "sampled", changed)).hint == hint


def test_a_weight_without_a_gradient_is_named(good, with_record):
    sampled = good.stages[STAGE].values[0]["sampled"]
    changed = [[sampled[0][0], sampled[0][1] | {"w1": None}], *sampled[1:]]
    assert COMPUTED(with_record(good, "sampled", changed)).hint == "no_gradient"


def test_another_network_is_told_from_another_dtype(good, with_record):
    sampled = good.stages[STAGE].values[0]["sampled"]
    doubled = sampled[0][1] | {"gain": 2 * sampled[0][1]["gain"]}
    changed = [[sampled[0][0], doubled], *sampled[1:]]
    assert COMPUTED(with_record(good, "sampled", changed)).hint == "network"


def test_the_ranks_own_record_alone_earns_nothing_and_can_cost(good, with_record):
    assert COMPUTED(with_record(good, "operators", {})) is None
    assert COMPUTED(with_record(good, "operators", {"mm": ["float32"]})).hint == "emulated"
    record = {"operators": {"mm": ["bfloat16"], "_log_softmax": ["bfloat16"]}}
    assert wrong_dtypes(record, ["mm"], "bfloat16") == ""
    assert wrong_dtypes(record, ["_log_softmax"], "float32") == "_log_softmax took bfloat16"


def test_a_loss_that_strays_is_a_problem(good, with_record):
    losses = list(good.stages[STAGE].values[0]["losses"])
    for step in (0, 29):
        changed = [*losses]
        changed[step] += 2 * PARITY
        assert PARITY_HOLDS(with_record(good, "losses", changed)).hint == "training"


def test_a_step_of_float32_products_is_found_at_the_start_and_at_the_end(good, with_record):
    after = good.stages[STAGE].values[0]["after"]
    for step in ("1", "30"):
        weights = {name: each.clone() for name, each in after[step].items()}
        weights["w1"] += 1e-2 * LEARNING_RATE * torch.randn(weights["w1"].shape)
        run = with_record(good, "after", after | {step: weights})
        assert STEPS_IN_BFLOAT16(run).hint == "float32_steps"
        assert PARITY_HOLDS(run) is None


def test_a_last_step_without_gradients_by_the_loss_is_no_step_in_bfloat16(good, with_record):
    last = good.stages[STAGE].values[0]["last"]
    for odd in ({}, last | {"w1": None}, last | {"w1": last["w2"]}):
        assert STEPS_IN_BFLOAT16(with_record(good, "last", odd)).hint == "float32_steps"


def test_a_loss_that_is_wrong_explains_the_training_that_calls_it(good, with_record):
    stage = good.stages[STAGE].values[0]
    sampled = [[torch.tensor(9.0).bfloat16(), stage["sampled"][0][1]], *stage["sampled"][1:]]
    run = with_record(good, "sampled", sampled)
    assert STEPS_IN_BFLOAT16(run) is PARITY_HOLDS(run) is None
    weights = {name: each + 1.0 for name, each in stage["after"]["1"].items()}
    assert STEPS_IN_BFLOAT16(with_record(run, "after", stage["after"] | {"1": weights})).hint == (
        "reductions"
    )
    losses = [each + 2 * PARITY for each in stage["losses"]]
    assert PARITY_HOLDS(with_record(run, "losses", losses)).hint == "reductions"


@pytest.mark.parametrize("seed", range(6))
def test_every_difficulty_of_a_loss_scale_is_among_the_steps(seed):
    given = scaling.inputs(seed)
    scale, good, seen = scaling.START, 0, []
    for step in given["steps"]:
        gradients = scaling.scaled(step, scale)
        finite = all(bool(torch.isfinite(each).all()) for each in gradients.values())
        seen.append((finite, good))
        good = (good + 1) % given["growth_interval"] if finite else 0
        scale *= 0.5 if not finite else 2 if good == 0 else 1
    assert [n for n, (finite, _) in enumerate(seen) if not finite] == list(scaling.BAD)
    assert any(good for finite, good in seen if not finite)
    norms = [
        torch.cat([*step.values()]).norm()
        for number, step in enumerate(given["steps"])
        if number not in scaling.BAD
    ]
    assert min(norms) < scaling.MAX_NORM < max(norms)
    small = given["steps"][0]["w"]
    assert not torch.allclose(small.half().float(), small, rtol=CLOSE, atol=0)


def test_what_step_returns_counts(good, with_value):
    def returned(step, took):
        def change(value):
            taken = [*value["taken"]]
            taken[step] = took
            return value | {"taken": taken}

        return with_value(good, 0, change, scaling.STAGE)

    assert GOOD(returned(0, False)).hint == "returns"
    assert OVERFLOW(returned(scaling.BAD[0], True)).hint == "returns"
    assert GROWTH(returned(0, False)) is None


def test_a_scale_is_halved_and_doubled_by_no_other_number(good, with_ranks):
    def scaled(step, factor):
        def of_rank(rank):
            asked = list(rank.asked)
            scale = factor * asked[step].request["scale"]
            asked[step] = replace(asked[step], request={"scale": scale})
            return replace(rank, asked=tuple(asked))

        return with_ranks(good, of_rank, scaling.STAGE)

    assert OVERFLOW(scaled(scaling.BAD[0] + 1, 1 / 2)).hint == "halve"
    assert GROWTH(scaled(2, 2)).hint == "in_a_row"


def test_points_of_the_first_part_do_not_need_the_second(good):
    ended = replace(good.stages[scaling.STAGE], diagnosis=Diagnosis("raised", "rank 0 raised"))
    run = replace(good, stages={**good.stages, scaling.STAGE: ended})
    held = [claim.judge(run) is None for claim in CHECK.claims]
    assert held == [True] * 3 + [False] * 3
    assert CHECK.stages[-1].dies


def test_the_picture_is_that_of_the_answer(solution):
    picture = CHECK.picture(CHECK, solution("mixed_precision"))
    assert picture.png.startswith(b"\x89PNG")
    assert picture.words.startswith("Your losses are within 0.0")
    with pytest.raises(ValueError, match="did not return"):
        CHECK.picture(CHECK, "%%answer mixed_precision\nloss = Trainer = LossScale = None\n")
