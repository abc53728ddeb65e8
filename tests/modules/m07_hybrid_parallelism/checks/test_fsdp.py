"""Exercise fsdp: what its judges say of a good run with one thing changed."""

import itertools
import re
from dataclasses import replace
from functools import partial

import pytest
import torch

from hpml.modules.m07_hybrid_parallelism.checks._sharded_training import (
    OPTIMIZERS,
    PLACES,
    STEPS,
    elements,
    expect,
    inputs,
    make_optimizer,
    script,
    serial,
    serve,
    small_elements,
)
from hpml.modules.m07_hybrid_parallelism.checks.fsdp import CHECK

JUDGES = [claim.judge for claim in CHECK.claims]
SHARDS, GATHER, PARITY, AROUND, MEMORY, WIRE, PREFETCH, HALF, DTYPES = JUDGES
MIB = 2**20


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 2, 5)


@pytest.fixture
def changed(good, with_ranks):
    """`changed(change, stage)`: the good run with `change(rank evidence)` for each rank's."""
    return lambda change, stage="one model": with_ranks(good, change, stage)


@pytest.fixture
def with_part(good, with_value):
    """`with_part(key, change, stage)`: with `change(part)` for a part of rank 1's value."""

    def made(key, change, stage="one model"):
        return with_value(good, 1, lambda value: value | {key: change(value[key])}, stage)

    return made


@pytest.fixture
def with_gathers(changed):
    """`with_gathers(change)`: with `change(call)` for each all-gather; None leaves it out."""

    def of_rank(change, rank):
        calls = (change(c) if c.operation.startswith("all_gather") else c for c in rank.calls)
        return replace(rank, calls=tuple(call for call in calls if call is not None))

    return lambda change: changed(partial(of_rank, change))


def test_inputs_differ_between_seeds_and_ranks_share_a_state():
    first, second = inputs(3, 2), inputs(4, 2)
    assert torch.equal(first[0]["state"]["norm.bias"], first[1]["state"]["norm.bias"])
    assert not torch.equal(first[0]["state"]["embed.weight"], second[0]["state"]["embed.weight"])
    batches = [rank["steps"][0]["batch"][0].tolist() for rank in first + second]
    assert len({tuple(batch) for batch in batches}) == 4


def test_each_answer_meets_every_optimizer_the_same_on_all_ranks():
    met = [{rank["optimizer"] for rank in inputs(8, world_size)} for world_size in (1, 2, 3, 4)]
    assert {len(of_ranks) for of_ranks in met} == {1}
    assert set().union(*met) == set(range(len(OPTIMIZERS)))


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
def test_with_every_optimizer_a_sum_is_not_a_mean(good, with_ranks, number):
    ranks = [rank | {"optimizer": number} for rank in good.inputs["one model"]]
    steps = list(zip(*(rank["steps"] for rank in ranks), strict=True))
    drawn = replace(
        good,
        inputs=good.inputs | {"one model": ranks},
        expected=good.expected | {"one model": expect(ranks, 2)},
    )
    added_up = serial(ranks[0]["state"], number, steps, 1)
    sums = with_ranks(
        drawn, lambda one: replace(one, value=one.value | {"after": added_up}), "one model"
    )
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


@pytest.mark.parametrize(("step", "hint"), [(0, "parity"), (STEPS - 1, "stale")])
def test_a_weight_that_differs_is_named(with_part, step, hint):
    def off(after):
        state = after[step] | {"hidden.1.weight": after[step]["hidden.1.weight"] + 1e-3}
        return [*after[:step], state, *after[step + 1 :]]

    problem = PARITY(with_part("after", off))
    assert problem.hint == hint
    assert "hidden.1.weight" in problem.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.flatten(), "has shape"),
        (lambda t: t.float(), "is float32"),
        (lambda t: t + 1e-9, "differs by up to"),
        (lambda t: None, "is None"),
    ],
)
def test_a_parameter_that_is_gathered_wrong_is_named(with_part, change, words):
    gathered = with_part(
        "start", lambda start: start | {"head.weight": change(start["head.weight"])}
    )
    problem = GATHER(gathered)
    assert problem.hint == "gather"
    assert words in problem.message
    assert PARITY(gathered).hint == "gather"


def test_shards_of_another_size_and_without_gradients_are_found(with_part):
    shard = -(-elements()["hidden.1"] // 2)

    def larger(found):
        place = found.index(shard)
        return [*found[:place], shard + 1, *found[place + 1 :]]

    assert SHARDS(with_part("elements", larger)).hint == "shard_size"
    nothing = with_part("with_gradient", lambda there: [False] * len(there))
    assert SHARDS(nothing).hint == "no_gradient"


@pytest.mark.measures
@pytest.mark.parametrize(("more", "hint"), [(4, None), (14, "memory")])
def test_memory_is_the_kernels_count(changed, more, hint):
    problem = MEMORY(
        changed(lambda rank: replace(rank, peak_bytes=rank.peak_bytes + more * MIB), "large")
    )
    assert (problem and problem.hint) == hint


@pytest.mark.parametrize(
    ("stage", "judge_it", "hint"), [("large", WIRE, "wire"), ("half", HALF, "half_wire")]
)
@pytest.mark.parametrize(("factor", "held"), [(1.02, True), (1.3, False)])
def test_the_wire_is_counted_by_the_kernel(changed, stage, judge_it, hint, factor, held):
    def of_rank(rank):
        sent = int(factor * rank.traffic.sent_bytes)
        return replace(rank, traffic=replace(rank.traffic, sent_bytes=sent))

    problem = judge_it(changed(of_rank, stage))
    assert (problem is None) == held
    assert held or problem.hint == hint


def test_who_sends_too_little_has_not_gathered(changed):
    def of_rank(rank):
        return replace(rank, traffic=replace(rank.traffic, sent_bytes=10_000_000))

    assert WIRE(changed(of_rank, "large")).hint == "parity"


def asked(rank, name):
    return [one.at for one in rank.asked if one.request == name]


def of_weight(rank, name):
    size = -(-elements()[name] // 2) * 8
    return [c for c in rank.calls if c.nbytes == size and c.operation.startswith("all_gather")]


def test_no_gathers_and_those_of_no_weight_are_told(with_gathers):
    assert AROUND(with_gathers(lambda call: None)).hint == "not_gathered"
    assert AROUND(with_gathers(lambda call: replace(call, nbytes=77_777))).hint == "one_each"
    assert PREFETCH(with_gathers(lambda call: None)).hint == "not_gathered"


def moved(name, number, to):
    """The change that issues a weight's gather of the second step when a rank asked for `to`."""

    def of_rank(rank):
        begin, end = asked(rank, "batch")[1], asked(rank, "synchronized")[1]
        (at,) = (t for t in asked(rank, to) if begin <= t <= end)
        inside = [c for c in of_weight(rank, name) if begin <= c.issued <= end]
        changed = replace(inside[number], issued=at + 1e-7)
        calls = (changed if c.index == changed.index else c for c in rank.calls)
        return replace(rank, calls=tuple(calls))

    return of_rank


@pytest.mark.parametrize(
    ("name", "number", "to", "hint"),
    [
        ("hidden.1", 0, "f2", "prefetch_forward"),
        ("hidden.1", 0, "f1", None),
        ("hidden.1", 1, "b3", "prefetch_backward"),
        ("hidden.1", 1, "b4", None),
        ("head", 1, f"f{PLACES - 1}", "prefetch_forward"),
        ("frozen", 1, "forward", "early"),
    ],
)
def test_when_a_gather_begins_is_held_against_what_was_served(changed, name, number, to, hint):
    problem = PREFETCH(changed(moved(name, number, to)))
    assert (problem and problem.hint) == hint


@pytest.mark.parametrize(
    ("key", "change", "hint"),
    [
        ("after", lambda after: {n: t.bfloat16() for n, t in after.items()}, "master"),
        ("after", lambda after: {n: t.bfloat16().float() for n, t in after.items()}, "master"),
        ("after", lambda after: {n: t.flatten() for n, t in after.items()}, "gather"),
        ("after", lambda after: dict.fromkeys(after), "gather"),
        ("logits", lambda logits: 2 * logits, "compute"),
        ("logits", lambda logits: None, "compute"),
    ],
)
def test_what_is_not_in_the_right_dtype_is_found(with_part, key, change, hint):
    assert DTYPES(with_part(key, change, "half")).hint == hint


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


def test_the_picture_shows_a_step(solution, monkeypatch):
    from hpml.trace import launch_timeline

    drawn, draw = [], launch_timeline.timeline
    monkeypatch.setattr(
        launch_timeline,
        "timeline",
        lambda shown, title: drawn.append((shown, title)) or draw(shown, title=title),
    )
    assert CHECK.picture(CHECK, solution("fsdp")).png.startswith(b"\x89PNG")
    ((shown, title),) = drawn
    gathers = [call for call in shown.ranks[0].calls if "gather" in call.operation]
    # forward gathers 4 layers; backward begins with the last one, which is still there
    assert len(gathers) == 7
    assert re.fullmatch(r"4 layers, 12 calls: rank 0 waits for [1-9]\d?% of a step", title)
