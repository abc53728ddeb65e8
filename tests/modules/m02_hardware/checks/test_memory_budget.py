"""Exercise memory_budget: what is measured, and what its judges say of budgets."""

import pytest

from hpml.checks.contract import CannotJudge
from hpml.modules.m02_hardware.checks._measured_networks import KINDS, build, networks
from hpml.modules.m02_hardware.checks.memory_budget import CHECK, is_measured

WEIGHTS, GRADIENTS, STATES, ACTIVATIONS, PEAK, FITS = [claim.judge for claim in CHECK.claims]


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 1, 5)


@pytest.fixture
def answered(good, with_value):
    """`answered(change, stage)`: with `change(figures)` for what it returned of each network."""

    def changed(change, stage="answered"):
        return with_value(good, 0, lambda value: [change(dict(one)) for one in value], stage)

    return changed


@pytest.fixture
def budgets(good, answered):
    """`budgets(kind, change)`: with `change(figure, figures measured)` for it in each budget."""

    def changed(kind, change):
        (measured,) = good.stages["measured"].values
        at = iter(measured)

        def of_network(figures):
            budget = figures["budget"]
            return figures | {"budget": budget | {kind: change(budget[kind], next(at))}}

        return answered(of_network)

    return changed


@pytest.mark.measures
def test_a_good_run_has_no_problems(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_networks_are_fresh_and_of_three_sorts():
    import torch

    first, second = networks(1), networks(2)
    assert [one["layers"] for one in first] != [one["layers"] for one in second]
    assert {one["optimizer"] for one in first} == {"sgd", "momentum", "adam"}
    models = [build(one, "meta") for one in first]
    assert [next(model.parameters()).dtype for model in models].count(torch.float64) == 1
    frozen = [not all(p.requires_grad for p in model.parameters()) for model in models]
    assert frozen == [False, False, True]
    assert all(p.device.type == "meta" for model in models for p in model.parameters())


@pytest.mark.measures
def test_what_is_measured_is_the_networks(good):
    """Against counts that are made here, of the network of images, whose layers are known."""
    (measured,) = good.stages["measured"].values
    for network, of in zip(good.inputs["answered"][0]["networks"], measured, strict=True):
        model = build(network, "meta")
        trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
        assert of["gradients"] == trained
        assert (
            of["optimizer states"]
            == ["sgd", "momentum", "adam"].index(network["optimizer"]) * trained
        )
        assert is_measured(of)
        assert of["peak"] > sum(of[kind] for kind in KINDS[:3])
        assert of["peak of twice"] - of["peak"] > 0.9 * (of["activations"] - of["weights"])


@pytest.mark.measures
@pytest.mark.parametrize(
    ("judge", "kind", "change", "hint"),
    [
        (WEIGHTS, "weights", lambda n, of: n + 1, "weights"),
        (GRADIENTS, "gradients", lambda n, of: n - 4, "gradients"),
        (STATES, "optimizer states", lambda n, of: n + 4, "moments"),
        (ACTIVATIONS, "activations", lambda n, of: int(1.02 * n), "kept"),
        (PEAK, "weights", lambda n, of: n + int(0.2 * of["peak"]), "peak"),
        (PEAK, "activations", lambda n, of: n - min(n, int(0.2 * of["peak"])), "peak"),
    ],
)
def test_a_wrong_kind_is_named(budgets, judge, kind, change, hint):
    assert judge(budgets(kind, change)).hint == hint


def test_a_little_of_the_activations_is_forgiven(budgets):
    assert ACTIVATIONS(budgets("activations", lambda n, of: int(0.995 * n))) is None


@pytest.mark.parametrize("value", [None, 3, {}, {kind: 1.5 for kind in KINDS}])
def test_what_is_no_budget_is_named(answered, value):
    run = answered(lambda figures: figures | {"budget": value})
    for judge in (WEIGHTS, GRADIENTS, STATES, ACTIVATIONS, PEAK):
        assert judge(run).hint == "types"


@pytest.mark.parametrize("batch", [None, -1, 2.0])
def test_what_is_no_batch_is_named(answered, batch):
    def change(figures):
        (memory, *_), *others = figures["fits"]
        return figures | {"fits": [[memory, batch, None, None], *others]}

    assert FITS(answered(change)).hint == "batch_type"


def test_a_budget_of_one_sample_is_no_mistake_of_rounding(good, answered):
    batches = iter([network["batch"] for network in good.inputs["answered"][0]["networks"]])

    def change(figures):
        (memory, batch, at_it, _), *others = figures["fits"]
        kinds = figures["budget"]
        budget = kinds | {"activations": round(kinds["activations"] / next(batches))}
        fits = [[memory, batch, at_it, at_it], *others]
        return figures | {"budget": budget, "fits": fits}

    run = answered(change)
    assert ACTIVATIONS(run).hint == FITS(run).hint == "one_sample"


@pytest.mark.measures
def test_a_batch_that_is_far_from_what_was_measured(answered):
    """The budgets agree with the batch: all of it is wrong by a factor."""

    def change(figures):
        (memory, batch, at_it, one_more), *others = figures["fits"]
        return figures | {"fits": [[memory, 2 * batch, at_it, one_more], *others]}

    assert FITS(answered(change)).hint == "peak"


def test_a_batch_where_nothing_fits(answered):
    def change(figures):
        first, (memory, *_), *edges = figures["fits"]
        budget = figures["budget"]
        return figures | {"fits": [first, [memory, 1, budget, budget], *edges]}

    assert FITS(answered(change)).hint == "none_fits"


def test_a_library_that_needs_much_to_work_in_costs_nobody_a_point(answered):
    run = answered(lambda figures: figures | {"peak": 2 * figures["peak"]}, "measured")
    assert isinstance(PEAK(run), CannotJudge)
    assert isinstance(FITS(run), CannotJudge)
    assert ACTIVATIONS(run) is None


def test_the_picture_shows_an_answer_beside_the_peaks(solution):
    drawn = CHECK.picture(CHECK, solution("memory_budget"))
    assert drawn.png.startswith(b"\x89PNG")
    assert "beside the peaks that were measured" in drawn.words
