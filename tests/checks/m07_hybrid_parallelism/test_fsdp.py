"""Exercise fsdp: what its judges say of a good run, and of the same run with one thing changed."""

import itertools
from dataclasses import replace

import pytest
import torch

from hpml.checks import judge
from hpml.checks.m07_hybrid_parallelism._sharded_training import (
    OPTIMIZERS,
    PLACES,
    STEPS,
    USES,
    elements,
    expect,
    inputs,
    make_optimizer,
    script,
    serial,
    serve,
    small_elements,
)
from hpml.checks.m07_hybrid_parallelism.fsdp import CHECK, STAGE_1, STAGE_2
from hpml.course import schedule, wrong_answers

SHARDS, GATHER, PARITY, AROUND, MEMORY, WIRE = [claim.judge for claim in STAGE_1]
PREFETCH, HALF, DTYPES = [claim.judge for claim in STAGE_2]
MIB = 2**20


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


def with_ranks(run, change, stage="one model"):
    """The run with `change(rank evidence)` in place of each rank's evidence in a stage."""
    evidence = run.stages[stage]
    changed = replace(evidence, ranks=tuple(change(rank) for rank in evidence.ranks))
    return replace(run, stages={**run.stages, stage: changed})


def with_value(run, stage="one model", **change):
    """The run with rank 1's value changed: each `change` is a function of what was there."""

    def of_rank(rank):
        if rank.rank != 1:
            return rank
        changed = {key: function(rank.value[key]) for key, function in change.items()}
        return replace(rank, value=rank.value | changed)

    return with_ranks(run, of_rank, stage)


def with_gathers(run, change):
    """The run with `change(call)` in place of each all-gather; None leaves it out."""

    def of_rank(rank):
        calls = (change(c) if c.operation.startswith("all_gather") else c for c in rank.calls)
        return replace(rank, calls=tuple(call for call in calls if call is not None))

    return with_ranks(run, of_rank)


@pytest.mark.parametrize("seed", [1, 20_000])
def test_the_solution_holds_at_every_world_size(solution, seed):
    verdict = judge("fsdp", solution("fsdp"), seed=seed)
    assert verdict.passed, verdict


def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_differ_between_seeds_and_ranks_share_a_state():
    first, second = inputs(3, 2), inputs(4, 2)
    assert torch.equal(first[0]["state"]["norm.bias"], first[1]["state"]["norm.bias"])
    assert not torch.equal(first[0]["state"]["embed.weight"], second[0]["state"]["embed.weight"])
    batches = [rank["steps"][0]["batch"][0].tolist() for rank in first + second]
    assert len({tuple(batch) for batch in batches}) == 4


def test_every_optimizer_is_drawn_and_is_the_same_on_all_ranks():
    drawn = [{rank["optimizer"] for rank in inputs(seed, 2)} for seed in range(20)]
    assert {len(of_ranks) for of_ranks in drawn} == {1}
    assert set().union(*drawn) == set(range(len(OPTIMIZERS)))


@pytest.mark.parametrize("number", range(len(OPTIMIZERS)))
def test_an_optimizer_takes_the_same_steps_on_parts_of_a_weight(number):
    draw = torch.Generator().manual_seed(7)
    start, *gradients = torch.randn(4, 10, generator=draw, dtype=torch.float64)

    def steps(*parts):
        parameters = [torch.nn.Parameter(part.clone()) for part in parts]
        optimizer = make_optimizer(parameters, number)
        for gradient in gradients:
            cut = gradient.split([len(part) for part in parts])
            for parameter, own in zip(parameters, cut, strict=True):
                parameter.grad = own.clone()
            optimizer.step()
        return torch.cat(parameters)

    assert torch.allclose(steps(start), steps(start[:3], start[3:]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("number", range(len(OPTIMIZERS)))
def test_with_every_optimizer_a_sum_is_not_a_mean(good, number):
    ranks = [rank | {"optimizer": number} for rank in good.inputs["one model"]]
    steps = list(zip(*(rank["steps"] for rank in ranks), strict=True))
    drawn = replace(
        good,
        inputs=good.inputs | {"one model": ranks},
        expected=good.expected | {"one model": expect(ranks, 2)},
    )
    added_up = serial(ranks[0]["state"], number, steps, 1)
    sums = with_ranks(drawn, lambda one: replace(one, value=one.value | {"after": added_up}))
    assert PARITY(sums).hint == "sum"


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_weights_can_be_told_apart_by_the_size_of_their_shards(world_size):
    sizes = sorted({-(-n // world_size) for name, n in elements().items() if name != "head"})
    small = {-(-n // world_size) for n in small_elements()}
    assert all(b > 1.12 * a for a, b in itertools.pairwise(sizes))
    assert not any(a <= n <= 1.12 * a for a in sizes for n in small)


def test_ranks_together_are_one_process():
    ranks = inputs(6, 2)
    once = expect([ranks[0], ranks[0]], 2)
    alone = expect([ranks[0]], 1)
    for name, tensor in once[-1].items():
        torch.testing.assert_close(tensor, alone[-1][name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "step", "hint"),
    [
        ("norm.weight", 0, "replicated"),
        ("hidden.1.weight", 0, "parity"),
        ("hidden.1.weight", STEPS - 1, "stale"),
    ],
)
def test_a_weight_that_differs_is_named(good, name, step, hint):
    def changed(after):
        after = list(after)
        after[step] = after[step] | {name: after[step][name] + 1e-3}
        return after

    problem = PARITY(with_value(good, after=changed))
    assert problem.hint == hint
    assert name in problem.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.flatten(), "has shape"),
        (lambda t: t.float(), "is float32"),
        (lambda t: t + 1e-9, "differs by up to"),
        (lambda t: None, "is None"),
    ],
)
def test_a_parameter_that_is_gathered_wrong_is_named(good, change, words):
    gathered = with_value(
        good, start=lambda start: start | {"head.weight": change(start["head.weight"])}
    )
    problem = GATHER(gathered)
    assert problem.hint == "gather"
    assert words in problem.message
    assert PARITY(gathered).hint == "gather"


def test_parameters_that_are_not_shards_are_found(good):
    sizes = elements()
    whole, shard = sizes["hidden.1"], -(-sizes["hidden.1"] // 2)

    def instead(n, *others):
        def change(found):
            place = found.index(n)
            return [*found[:place], *others, *found[place + 1 :]]

        return change

    assert SHARDS(with_value(good, elements=instead(shard, whole))).hint == "not_sharded"
    assert SHARDS(with_value(good, elements=instead(shard, shard + 1))).hint == "shard_size"
    assert SHARDS(with_value(good, elements=instead(451, 226))).hint == "small"
    tied = -(-sizes["embed"] // 2)
    assert SHARDS(with_value(good, elements=instead(tied, tied, tied))).hint == "tied"
    assert SHARDS(with_value(good, trained=lambda t: [True] * len(t))).hint == "frozen"
    nothing = with_value(good, with_gradient=lambda there: [False] * len(there))
    assert SHARDS(nothing).hint == "no_gradient"


@pytest.mark.parametrize(("more", "hint"), [(0, None), (4, None), (14, "memory")])
def test_memory_is_the_kernels_count(good, more, hint):
    heavier = with_ranks(
        good, lambda rank: replace(rank, peak_bytes=rank.peak_bytes + more * MIB), "large"
    )
    problem = MEMORY(heavier)
    assert (problem and problem.hint) == hint


@pytest.mark.parametrize(
    ("stage", "judge_it", "hint"), [("large", WIRE, "wire"), ("half", HALF, "half_wire")]
)
@pytest.mark.parametrize(("factor", "held"), [(1.02, True), (1.3, False)])
def test_the_wire_is_counted_by_the_kernel(good, stage, judge_it, hint, factor, held):
    def of_rank(rank):
        sent = int(factor * rank.traffic.sent_bytes)
        return replace(rank, traffic=replace(rank.traffic, sent_bytes=sent))

    problem = judge_it(with_ranks(good, of_rank, stage))
    assert (problem is None) == held
    assert held or problem.hint == hint


def test_who_sends_too_little_has_not_gathered(good):
    def of_rank(rank):
        return replace(rank, traffic=replace(rank.traffic, sent_bytes=10_000_000))

    assert WIRE(with_ranks(good, of_rank, "large")).hint == "parity"


def asked(rank, name):
    return [one.at for one in rank.asked if one.request == name]


def of_weight(rank, name):
    size = -(-elements()[name] // 2) * 8
    return [c for c in rank.calls if c.nbytes == size and c.operation.startswith("all_gather")]


def test_one_gather_in_a_step_is_a_weight_that_was_kept(good):
    def once(rank):
        second = {c.index for c in of_weight(rank, "hidden.1")[1::2]}
        return replace(rank, calls=tuple(c for c in rank.calls if c.index not in second))

    # The first and the last are gathered by name
    problem = AROUND(with_ranks(good, once))
    assert problem.hint in ("freed", "not_gathered")
    assert AROUND(with_gathers(good, lambda call: None)).hint == "not_gathered"
    assert AROUND(with_gathers(good, lambda call: replace(call, nbytes=77_777))).hint == "one_each"
    assert PREFETCH(with_gathers(good, lambda call: None)).hint == "not_gathered"


def moved(good, name, number, to):
    """The run with a weight's gather of the second step issued when a rank asked for `to`."""

    def of_rank(rank):
        begin, end = asked(rank, "batch")[1], asked(rank, "synchronized")[1]
        (at,) = (t for t in asked(rank, to) if begin <= t <= end)
        inside = [c for c in of_weight(rank, name) if begin <= c.issued <= end]
        changed = replace(inside[number], issued=at + 1e-7)
        calls = (changed if c.index == changed.index else c for c in rank.calls)
        return replace(rank, calls=tuple(calls))

    return with_ranks(good, of_rank)


@pytest.mark.parametrize(
    ("name", "number", "to", "hint"),
    [
        ("hidden.1", 0, "f2", "prefetch_forward"),
        ("hidden.1", 0, "f1", None),
        ("hidden.1", 1, "b3", "prefetch_backward"),
        ("hidden.1", 1, "b4", None),
        ("head", 1, f"f{PLACES - 1}", "prefetch_forward"),
        ("hidden.2", 0, "batch", "early"),
        ("frozen", 1, "forward", "early"),
    ],
)
def test_when_a_gather_begins_is_held_against_what_the_parent_served(good, name, number, to, hint):
    problem = PREFETCH(moved(good, name, number, to))
    assert (problem and problem.hint) == hint


def test_an_early_wait_is_no_prefetch(good):
    waiting = with_gathers(good, lambda call: replace(call, waited=call.issued))
    assert AROUND(waiting) is None
    assert PREFETCH(waiting).hint == "waiting"


@pytest.mark.parametrize(
    ("key", "change", "hint"),
    [
        ("after", lambda after: {n: t.bfloat16() for n, t in after.items()}, "master"),
        ("after", lambda after: {n: t.bfloat16().float() for n, t in after.items()}, "master"),
        ("after", lambda after: {n: t.flatten() for n, t in after.items()}, "gather"),
        ("after", lambda after: dict.fromkeys(after), "gather"),
        ("logits", lambda logits: logits.bfloat16(), "compute"),
        ("logits", lambda logits: logits + 1e-5, "compute"),
        ("logits", lambda logits: 2 * logits, "compute"),
        ("logits", lambda logits: None, "compute"),
        ("gradients", lambda all_of: [g.bfloat16().float() for g in all_of], "added_in_half"),
    ],
)
def test_what_is_not_in_the_right_dtype_is_found(good, key, change, hint):
    assert DTYPES(with_value(good, "half", **{key: change})).hint == hint


def test_the_drives_requests_are_served_in_their_order():
    """An answer that asks in the drive's place fails."""
    _, reply = serve(inputs(3, 1))
    for _ in range(STEPS):
        for name in script():
            for other in ("f0", "b0", "batch", "backward", "weights", ["batch"]):
                if other != name:
                    with pytest.raises(ValueError, match="there is no"):
                        reply(0, other)
            reply(0, name)
    with pytest.raises(ValueError, match="there is no"):
        reply(0, "batch")


def test_gathers_that_block_are_stage_1(solution):
    course = schedule.load()
    (blocking,) = [w for w in wrong_answers.read(course, "fsdp") if w.name == "no_prefetch"]
    verdict = judge("fsdp", blocking.answer(solution("fsdp")))
    failed = [claim.name for claim in verdict.claims if not claim.passed and claim.judged]
    assert failed == [STAGE_2[0].name]
    assert len(USES) == PLACES + 1
