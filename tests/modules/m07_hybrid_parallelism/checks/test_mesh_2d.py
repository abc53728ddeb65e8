"""Exercise mesh_2d: its judges on a good run with one thing changed."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from hpml.checks import judge
from hpml.modules.m07_hybrid_parallelism.checks import mesh_2d as exercise
from hpml.modules.m07_hybrid_parallelism.checks.mesh_2d import CHECK, MESSAGE

LAYER, WEIGHTS, ACTIVATIONS, GRADIENTS = (claim.judge for claim in CHECK.claims)
ALL = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 4, 5)


@pytest.fixture
def with_calls(good, with_ranks):
    """`with_calls(change)`: the good run with the calls that `change(call)` lists for each."""

    def of_rank(change, rank):
        return replace(rank, calls=tuple(c for call in rank.calls for c in change(call)))

    return lambda change: with_ranks(good, partial(of_rank, change))


def is_sum(call):
    return call.nbytes == MESSAGE


def test_groups_that_only_their_members_make_are_told_as_that(solution):
    """Ranks then meet in each other's groups or wait: which of it, varies."""
    text = solution("mesh_2d")
    for kind, of in (("row", "ranks.tolist()"), ("column", "ranks.T.tolist()")):
        old = f"        for {kind} in {of}:\n            group = dist.new_group({kind})\n"
        assert text.count(old) == 1
        new = f"        for {kind} in [g for g in {of} if rank in g]:\n"
        text = text.replace(old, f"{new}            group = dist.new_group({kind})\n")
    verdict = judge("mesh_2d", text, worlds=[4], seed=3)
    assert verdict.earned == 0
    hints = {claim.hint_key for claim in verdict.claims}
    assert hints <= {"hang", "limit", "mismatch"}
    assert all("new_group" in claim.hint for claim in verdict.claims)


@pytest.mark.parametrize("mesh", [mesh for meshes in exercise.MESHES.values() for mesh in meshes])
def test_groups_of_each_kind_part_the_ranks_and_meet_once(mesh):
    ranks = range(mesh[0] * mesh[1])
    for kind, size in (("data", mesh[0]), ("tensor", mesh[1])):
        groups = {exercise.groups_of(rank, mesh)[kind] for rank in ranks}
        assert sorted(rank for group in groups for rank in group) == list(ranks)
        assert {len(group) for group in groups} == {size}
    for rank in ranks:
        own = exercise.groups_of(rank, mesh)
        assert set(own["data"]) & set(own["tensor"]) == {rank}


@pytest.mark.parametrize(
    ("judged", "part", "change", "hint"),
    [
        (LAYER, 0, lambda y: y + 1e-6, "output"),
        (LAYER, 0, lambda y: y.float(), "types"),
        (LAYER, 1, lambda g: g + 1e-6, "input"),
        (WEIGHTS, 2, lambda weights: [w + 1e-6 for w in weights], "weights"),
    ],
)
def test_a_wrong_value_on_one_rank_is_found(good, with_value, judged, part, change, hint):
    def first_step(value):  # its output (part 0), gradient (1) or weights (2), on the mesh 2 × 2
        changed = [[list(step) for step in mesh] for mesh in value]
        changed[0][0][part] = change(changed[0][0][part])
        return changed

    problem = judged(with_value(good, 1, first_step))
    assert problem.hint == hint
    assert "mesh 2 × 2, step 1, rank 1" in problem.message


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda call: [replace(call, group=ALL)] if is_sum(call) else [call], "all_ranks"),
        (lambda call: [replace(call, group=(0, 3))] if is_sum(call) else [call], "numbering"),
        (lambda call: [] if is_sum(call) else [call], "activations"),
        (lambda call: [call, call], "activations"),
    ],
)
def test_sums_of_activations_are_counted_by_group(with_calls, change, hint):
    assert ACTIVATIONS(with_calls(change)).hint == hint


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda call: [call] if is_sum(call) else [], "no_average"),
        (lambda call: [call, call], "gradients"),
    ],
)
def test_averages_are_counted_by_group(with_calls, change, hint):
    assert GRADIENTS(with_calls(change)).hint == hint


def test_calls_in_the_other_group_are_told_as_that(good, with_ranks):
    def turned(rank):
        kinds = exercise.groups_of(rank.rank, (2, 2))
        swap = {kinds["data"]: kinds["tensor"], kinds["tensor"]: kinds["data"]}
        calls = tuple(replace(call, group=swap.get(call.group, call.group)) for call in rank.calls)
        return replace(rank, calls=calls)

    run = with_ranks(good, turned)
    assert ACTIVATIONS(run).hint == GRADIENTS(run).hint == "other_dimension"


def test_ranks_of_a_row_have_the_same_samples_and_of_a_column_the_same_weights():
    ranks = exercise.inputs(1, 4)
    of = [rank["meshes"][0] for rank in ranks]
    assert torch.equal(of[0]["steps"][0][0], of[1]["steps"][0][0])
    assert not torch.equal(of[0]["steps"][0][0], of[2]["steps"][0][0])
    assert torch.equal(of[0]["weights"][0], of[2]["weights"][0])
    assert not torch.equal(of[0]["weights"][0], of[1]["weights"][0])
