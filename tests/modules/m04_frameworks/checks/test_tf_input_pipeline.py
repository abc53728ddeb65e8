"""The check of tf_input_pipeline: what its judges make of right and wrong values and requests."""

import random
from dataclasses import replace

import numpy as np
import pytest

from hpml.checks.contract import CannotJudge
from hpml.modules.m04_frameworks.checks import _epoch_orders as measures
from hpml.modules.m04_frameworks.checks import _served_augmentations as served
from hpml.modules.m04_frameworks.checks import tf_input_pipeline as exercise
from hpml.modules.m04_frameworks.checks._requested_epochs import epochs_of
from hpml.modules.m04_frameworks.checks.tf_input_pipeline import CHECK
from hpml.ranks.evidence import Asked, Counts, RankEvidence

ONCE, FRESH, SHUFFLED, READ, BESIDE, AHEAD, REPEATS = (claim.judge for claim in CHECK.claims)
pytestmark = pytest.mark.xdist_group("tensorflow")


@pytest.fixture(scope="module")
def good(played):
    return played(CHECK, 1, 5)


def with_rank(run, stage, **changes):
    evidence = run.stages[stage]
    changed = replace(evidence, ranks=(replace(evidence.ranks[0], **changes),))
    return replace(run, stages={**run.stages, stage: changed})


def copied(value):
    return [
        pipeline
        if isinstance(pipeline, str)
        else [[[part for part in batch] for batch in epoch] for epoch in pipeline]
        for pipeline in value
    ]


def with_batches(run, change, stage="served"):
    """The run with what came out changed in place: [pipeline][epoch][batch] = [images, labels]."""
    value = copied(run.stages[stage].values[0])
    change(value)
    return with_rank(run, stage, value=value)


def test_a_good_run_has_no_problem(good):
    assert [claim.judge(good) for claim in CHECK.claims] == [None] * len(CHECK.claims)


def test_inputs_are_fresh_and_draws_are_kept_back():
    one, other = (CHECK.inputs(seed, 1)["served"][0] for seed in (1, 2))
    assert one["files"] != other["files"]
    assert one["seeds"] != other["seeds"]
    for stage in CHECK.stages:
        (sent,), _ = stage.serve(CHECK.inputs(3, 1)[stage.name])
        assert not {"images", "labels", "gains"} & sent.keys()


def test_two_stages_make_the_same_pipelines():
    given = CHECK.inputs(4, 1)
    assert given["served"][0]["files"] == given["read"][0]["files"]
    assert given["served"][0]["seeds"] == given["read"][0]["seeds"][::-1]
    assert given["served"][0]["seeds"][1] is None


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda value: value[1][2].pop(0), "lost"),
        (lambda value: value[0][1].append(value[0][1][-1]), "batch"),
        (lambda value: value[0][1].__setitem__(1, value[0][1][0]), "twice"),
    ],
)
def test_an_epoch_that_is_not_each_sample_once(good, change, hint):
    assert ONCE(with_batches(good, change)).hint == hint


@pytest.mark.parametrize("judge", [FRESH, READ, BESIDE, AHEAD])
@pytest.mark.parametrize("stage", ["served", "read"])
def test_epochs_of_nothing_show_nothing(good, judge, stage):
    run = with_batches(good, lambda value: value[0][1].clear(), stage)
    assert (judge(run).hint, judge(run).message) == ("lost", "epoch 2 has 0 samples")
    one_file_missing = with_batches(good, lambda value: value[0][1].pop(0), stage)
    assert judge(one_file_missing) == judge(good)


def test_images_of_another_epochs_calls_were_made_beforehand(good):
    def change(value):
        value[0][0], value[0][1] = value[0][1], value[0][0]

    assert FRESH(with_batches(good, change)).hint == "beforehand"


def reordered(good, orders):
    """The run with samples in these orders, an order for each epoch of each pipeline."""
    size = good.inputs["served"][0]["batch_size"]

    def change(value):
        for pipeline, of_epochs in enumerate(orders):
            for epoch, order in enumerate(of_epochs):
                images, labels = (
                    np.concatenate(part) for part in zip(*value[pipeline][epoch], strict=True)
                )
                now = exercise.orders(good, "served", pipeline)[epoch]
                places = [now.index(sample) for sample in order]
                value[pipeline][epoch] = [
                    [images[places[first : first + size]], labels[places[first : first + size]]]
                    for first in range(0, len(places), size)
                ]

    return with_batches(good, change)


def test_honest_orders_are_within_every_bound():
    """Of the fewest and of the most samples: the worst of a thousand runs keeps a distance."""
    draw = np.random.default_rng(7)
    for samples, size in ((25, 6), (41, 7)):
        worst = [0.0, 0.0, 9.0]
        for number in range(1_000):
            orders = [draw.permutation(samples) for _ in range(6)]
            worst[0] = max(worst[0], measures.resemblance(orders))
            worst[2] = min(worst[2], measures.file_distance(orders))
            if number < 100:  # slower
                epochs = [
                    [[(s, None, 0) for s in order[i : i + size]] for i in range(0, samples, size)]
                    for order in orders
                ]
                worst[1] = max(worst[1], measures.batches_alike(epochs))
        assert worst[0] < 0.75 * exercise.RESEMBLE
        assert worst[1] < 0.75 * exercise.TOGETHER
        assert worst[2] > exercise.STAY + 0.1


def test_without_a_seed_the_order_is_not_that_of_a_seed(good):
    seeded = exercise.orders(good, "served", 0)
    assert REPEATS(reordered(good, [seeded, seeded])).hint == "always_seeded"


def counted(*pairs):
    """Requests at the beginnings of three epochs and at the end, with these opens and bytes."""
    requests = [{"epoch": 0}, {"epoch": 1}, {"epoch": 2}, "end"]
    return tuple(
        Asked(request, 0.0, counts=None if pair is None else Counts(1, pair[1], pair[0]))
        for request, pair in zip(requests, pairs, strict=True)
    )


def test_files_are_read_in_the_first_epoch_only(good):
    name, *_ = files = good.inputs["read"][0]["files"]
    size = sum(map(len, files.values()))
    once, twice = {name: 2}, {name: 3}
    none: dict[str, int] = {}
    cases = {
        None: counted((none, 0), (once, size), (once, size), (once, size + 9)),
        "2": counted((none, 0), (once, size), (twice, size), (twice, size)),
        "not_cached": counted((none, 0), (once, size), (once, 2 * size), (once, 3 * size)),
    }
    assert READ(with_rank(good, "read", asked=cases[None])) is None
    assert "epoch 2" in READ(with_rank(good, "read", asked=cases["2"])).message
    assert READ(with_rank(good, "read", asked=cases["not_cached"])).hint == "not_cached"
    one_import = counted((none, 0), (once, size), (once, 9 * size), (once, 9 * size))
    assert READ(with_rank(good, "read", asked=one_import)) is None
    assert isinstance(READ(with_rank(good, "read", asked=counted(*[None] * 4))), CannotJudge)


def test_calls_for_show_count_for_nothing(good):
    wrong = with_batches(good, lambda value: None)
    asked = [
        one
        for one in wrong.stages["served"].ranks[0].asked
        if not (isinstance(one.request, dict) and "epoch" in one.request)
    ]
    nothing = with_rank(wrong, "served", asked=tuple(asked))
    assert BESIDE(nothing).hint == AHEAD(nothing).hint == "beforehand"


# What is served


def new_server():
    given = {"samples": 30, "batch_size": 6, "gains": 1}
    one = served.Served(given)
    one.reply({"epoch": 0})
    return one, {"augment": bytes(192)}


def test_of_two_augmentations_the_later_one_ends_first():
    one, request = new_server()
    first = one.reply(request)
    assert isinstance(first, int)
    assert one.reply({"goes on": first}) == first
    assert isinstance(one.reply(request), np.ndarray)
    assert isinstance(one.reply({"goes on": first}), np.ndarray)


def test_one_that_stays_alone_ends_after_some_naps():
    one, request = new_server()
    first = one.reply(request)
    replies = [one.reply({"goes on": first}) for _ in range(served.ALONE)]
    assert isinstance(replies[-1], np.ndarray)
    assert all(reply == first for reply in replies[:-1])


def test_a_step_lasts_until_the_next_batch_is_augmented():
    one, request = new_server()
    for _ in range(6):
        one.reply(request)
        one.under_way.clear()
    assert not one.reply("step")
    for _ in range(5):
        one.reply(request)
        one.under_way.clear()
        assert not one.reply("stepping")
    one.reply(request)
    one.under_way.clear()
    assert one.reply("stepping")


def test_a_step_that_waits_for_nothing_ends():
    one, _ = new_server()
    assert one.reply("step")  # nothing is augmented in this epoch: it is all there
    one, request = new_server()
    one.reply(request)
    one.under_way.clear()
    assert not one.reply("step")
    assert any(one.reply("stepping") for _ in range(served.IDLE))


def test_the_last_ones_wait_for_the_first_step():
    one, request = new_server()
    for _ in range(24):
        one.reply(request)
        one.under_way.clear()
    one.reply(request)
    assert one.reply(request) == 25  # the later of two, and it waits all the same
    one.reply("step")
    assert isinstance(one.reply({"goes on": 25}), np.ndarray)


@pytest.mark.parametrize(
    "request_", ["other", {"augment": b"short"}, {"goes on": 7}, {"epoch": "1"}]
)
def test_anything_else_is_not_served(request_):
    one, _ = new_server()
    with pytest.raises(ValueError, match=r"not served|takes an image"):
        one.reply(request_)


def test_no_two_calls_have_the_same_image():
    image = np.full(served.SHAPE, 200, np.uint8)
    seen = {served.augmented(image, 5, call).tobytes() for call in range(300)}
    assert len(seen) == 300


def test_epochs_are_read_from_the_requests():
    asked = [{"epoch": 0}, {"augment": b"a"}, {"augment": b"b"}, {"goes on": 0}, "step", "stepping"]
    rank = RankEvidence(0, "returned", asked=tuple(Asked(one, 0.0) for one in asked))
    (epoch,), images = epochs_of(rank)
    assert images == [b"a", b"b"]
    assert epoch.spans == {0: (1, 3), 1: (2, 2)}
    assert epoch.steps == [(4, 5)]
    assert epoch.overlapping() == 2
    assert (epoch.ended_by(3), epoch.begun_by(3)) == (1, 2)


def test_one_order_with_few_changes_is_seen_whatever_the_other_pipelines_order(good):
    samples = good.inputs["served"][0]["samples"]
    drawn = random.Random(1).sample(range(samples), samples)
    there = [drawn[epoch:] + drawn[:epoch] for epoch in range(3)]
    back = [order[::-1] for order in there]
    assert SHUFFLED(reordered(good, [there, back])).hint == "small_buffer"


def test_files_that_are_often_in_nearly_the_same_order_are_no_small_buffer(good):
    samples = good.inputs["served"][0]["samples"]
    files = [list(range(file, samples, served.SHARDS)) for file in range(served.SHARDS)]
    orders = [[0, 1, 2, 3], [1, 0, 2, 3], [0, 1, 3, 2]]
    epochs = [[sample for file in order for sample in files[file]] for order in orders]
    assert SHUFFLED(reordered(good, [epochs, epochs])).hint == "neighbours"
