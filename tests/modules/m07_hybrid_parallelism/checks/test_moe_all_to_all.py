"""Exercise moe_all_to_all: its judges on a good run with one thing changed."""

from dataclasses import replace

import pytest
import torch

from hpml.modules.m07_hybrid_parallelism.checks import _expert_tokens as tokens
from hpml.modules.m07_hybrid_parallelism.checks import _tokens_picture as tokens_picture
from hpml.modules.m07_hybrid_parallelism.checks.moe_all_to_all import CHECK
from hpml.network.link import Link
from hpml.ranks.evidence import Asked, Traffic

FIT, DROPPED, GRADIENTS, LEARN, ONCE, BYTES = (claim.judge for claim in CHECK.claims)
TIGHT = [number for number, (fits, *_) in enumerate(tokens.CALLS["forward"]) if not fits]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 3, 5)


@pytest.fixture
def returned(with_ranks):
    """`returned(run, outputs)`: forward returned `outputs`, [call][rank]."""
    return lambda run, outputs: with_ranks(
        run, lambda rank: replace(rank, value=[call[rank.rank] for call in outputs]), "forward"
    )


@pytest.fixture
def trained(good, with_value):
    """`trained(change)`: rank 1's first step returned what `change` makes of it."""
    return lambda change: with_value(
        good, 1, lambda steps: [{**steps[0], **change(steps[0])}, *steps[1:]], "training"
    )


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(4))
def test_tight_calls_drop_tokens_of_every_kind(seed, world_size):
    ranks = tokens.inputs(seed, world_size)["forward"]
    for number, (fits, *_) in enumerate(tokens.CALLS["forward"]):
        calls, _ = tokens.by_call(ranks, number)
        stays = torch.cat(tokens.kept(calls))
        assert bool(stays.all()) == fits
        taken = torch.tensor(tokens.rows_of(ranks, number)).sum(0)
        assert taken.max() <= calls[0][3]


def test_each_play_has_two_and_three_experts_on_a_rank_and_the_texts_example():
    each = {world: len(tokens.inputs(1, world)["forward"][0]["experts"]) for world in (1, 2, 3, 4)}
    assert set(each.values()) == {2, 3}
    assert tokens.inputs(1, 2)["forward"][1]["first"] == 2  # rank 1 has experts 2 and 3
    assert each[2] == 2


@pytest.mark.parametrize("mistake", tokens.MISTAKES)
@pytest.mark.parametrize("seed", range(2))
def test_every_mistake_meets_its_hint(good, returned, seed, mistake):
    given = tokens.inputs(seed, 3)
    expected = {"forward": tokens.forward_outputs(given["forward"])}
    run = replace(good, inputs=given, expected=expected)
    run = returned(run, tokens.forward_outputs(given["forward"], mistake))
    of_dropped = mistake in ("capacity", "per_rank", "backwards", "dropped")
    problem = (DROPPED if of_dropped else FIT)(run)
    assert problem.hint == mistake
    assert not problem.expected
    if of_dropped:
        assert FIT(run) is None


def test_who_drops_too_many_is_told_so(good, returned):
    outputs = [[y.clone() for y in call] for call in good.expected["forward"]]
    filled = torch.nonzero((outputs[TIGHT[0]][0] != 0).any(1))[:, 0]
    outputs[TIGHT[0]][0][filled[-1]] = 0
    assert DROPPED(returned(good, outputs)).hint == "too_few"


@pytest.mark.parametrize(
    ("value", "hint"),
    [(None, "types"), (torch.zeros(3), "types"), (torch.zeros(1).half(), "types")],
)
def test_what_is_no_output_is_told_so(good, returned, value, hint):
    outputs = [[value for _ in call] for call in good.expected["forward"]]
    assert FIT(returned(good, outputs)).hint == hint


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda step: {"gate": 2 * step["gate"]}, "gate_gradient"),
        (lambda step: {"x": 2 * step["x"]}, "gradient"),
        (lambda step: {"x": 2 * step["x"], "output": step["x"]}, "forward_first"),
        (lambda step: {"x": step["x"].float()}, "types"),
    ],
)
def test_a_wrong_step_is_found(trained, change, hint):
    problem = GRADIENTS(trained(change))
    assert problem.hint == hint
    assert "rank 1" in problem.message


def test_experts_that_do_not_learn_are_found(good, trained):
    start = good.inputs["training"][1]["experts"]
    assert LEARN(trained(lambda step: {"experts": start})).hint == "unchanged"


@pytest.mark.parametrize(
    "change", [lambda request: [[*request[:2], request[2] + 1]], lambda request: []]
)
def test_the_rows_of_experts_are_counted_outside_the_rank(good, with_ranks, change):
    def of_rank(rank):
        requests = [
            Asked(new, one.at, one.answered)
            for one in rank.asked
            for new in (change(one.request) if isinstance(one.request, list) else [one.request])
        ]
        return replace(rank, asked=tuple(requests)) if rank.rank == 1 else rank

    assert ONCE(with_ranks(good, of_rank, "forward")).hint == "rows"


@pytest.mark.parametrize("times", [0.5, 2])
def test_too_few_and_too_many_bytes_are_found(good, with_ranks, times):
    def of_rank(rank):
        enough = tokens.enough_bytes(good.inputs["forward"], "forward")[rank.rank]
        sent = int(times * enough) + (100_000 if times > 1 else 0)
        return replace(rank, traffic=Traffic(sent, 1, sent, 1))

    run = with_ranks(good, of_rank, "forward")
    stages = {
        name: replace(found, link=Link("10gbit", 10**10)) for name, found in run.stages.items()
    }
    problem = BYTES(replace(run, stages=stages))
    assert problem.hint == ("wire" if times > 1 else "parity")


@pytest.mark.parametrize("request_", [["shift", 5, 1], ["shift", "0", 1], ["shift", 0], "gradient"])
def test_a_rank_is_served_its_own_experts_only(request_):
    _, reply = tokens.serve(tokens.inputs(1, 2)["forward"], "forward")
    reply(0, "tokens")
    with pytest.raises(ValueError, match="there is no"):
        reply(0, request_)


def test_no_rank_goes_on_to_the_next_call_before_all_have_their_output():
    _, reply = tokens.serve(tokens.inputs(1, 2)["forward"], "forward")
    for _ in tokens.CALLS["forward"]:
        for rank in (0, 1):
            reply(rank, "tokens")
        assert reply(1, "output") == []
        assert [one.rank for one in reply(0, "output")] == [1, 0]


def test_a_row_of_zeros_is_a_dropped_token():
    choice = torch.tensor([2, 0, 2, 2])
    output = torch.tensor([[1.0, 0.0], [0.0, 3.0], [0.0, 0.0], [-1.0, 1.0]])
    assert tokens_picture.counted([choice], [output], 4) == ([[1, 0, 3, 0]], [[1, 0, 2, 0]])
    empty = torch.zeros(0, dtype=torch.int64)
    assert tokens_picture.counted([empty], [torch.zeros(0, 2)], 2) == ([[0, 0]], [[0, 0]])
    for wrong in (None, output[:3], output[:, 0]):
        with pytest.raises(ValueError, match="not an output for each token"):
            tokens_picture.counted([choice], [wrong], 4)


def test_the_picture_shows_whose_tokens_each_expert_takes():
    chose, taken = [[1, 5], [2, 3]], [[1, 4], [2, 0]]
    above, below = tokens_picture.drawn(chose, taken, [[3], [1, 3]], capacity=4).axes
    said = [text.get_text() for text in above.texts]
    assert [text for text in said if " of " in text and "rank" not in text] == [
        *("1 of 1", "4 of 5"),
        *("2 of 2", "0 of 3"),
    ]
    assert above.get_title("left") == (
        "7 of 11 tokens have an output, 6 of them from an expert on another rank"
    )
    assert [label.get_text() for label in below.get_xticklabels()] == ["0\n3", "1\n4 in 2 calls"]
    # From below: rank 0's, rank 1's, the dropped
    assert [bar.get_height() for bar in below.patches] == [1, 2, 0, 4, 0, 4]
    assert list(below.lines[0].get_ydata()) == [4, 4]


def test_the_picture_is_of_a_call_that_drops_tokens(solution, monkeypatch):
    tables, draw = [], tokens_picture.drawn
    monkeypatch.setattr(
        tokens_picture, "drawn", lambda *given: tables.append(given) or draw(*given)
    )
    right = solution("moe_all_to_all")
    assert CHECK.picture(CHECK, right).png.startswith(b"\x89PNG")
    ((chose, taken, rows, capacity),) = tables
    given = tokens.inputs(tokens_picture.SEED, 4)["forward"]
    assert taken == tokens.rows_of(given, tokens_picture.CALL)
    by_expert = [sum(column) for column in zip(*taken, strict=True)]
    assert rows == [[count] for count in by_expert]
    assert max(by_expert) == capacity < max(map(sum, zip(*chose, strict=True)))
    with pytest.raises(ValueError, match="not an output for each token"):
        CHECK.picture(
            CHECK,
            right.replace("    return torch.zeros_like(x)", "    return x[:0]\n    return 0 * x"),
        )
