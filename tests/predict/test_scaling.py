"""The predictor's parts: by hand, at its limits, and what can never be."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpml.modules.m06_torch_distributed.lecture import buckets as dealt
from hpml.predict import scaling
from hpml.predict.collectives import Cost, all_reduce_seconds
from hpml.predict.scaling import Constants, Input, Level, Network, Training, predict


@dataclass(frozen=True)
class Layer:
    name: str
    flop: float
    parameter_bytes: float
    activation_bytes: float = 0.0


@dataclass(frozen=True)
class Model:
    layers: tuple[Layer, ...]


# Two layers; one rank needs 0.3 s a step: forward 0.1, backward 0.15 for the last, 0.05 for the
# first. On one link of 1e6 bytes/s a bucket of 1e5 bytes takes two ranks 0.1 s.
TWO = Model((Layer("first", 1.0, 1e5), Layer("last", 3.0, 1e5)))
FLAT = Network((Level(None, Cost(0.0, 1e-6)),))
TRAINING = Training(TWO, images_per_s=10.0, batch=3, network=FLAT, bucket_bytes=1e5)
ROUNDING = 1e-12  # seconds: what is exposed is a difference of seconds of computing

layers = st.lists(
    st.builds(Layer, st.just("layer"), st.floats(1.0, 1e9), st.floats(0.0, 1e8)),
    min_size=1,
    max_size=12,
).filter(lambda made: any(layer.parameter_bytes for layer in made))
worlds = st.integers(1, 600)
costs = st.builds(Cost, st.floats(0.0, 1e-3), st.floats(1e-12, 1e-6))
networks = st.builds(
    lambda g, inner, outer: Network((Level(g, inner), Level(None, outer))),
    st.integers(2, 16),
    costs,
    costs,
)
trainings = st.builds(
    Training,
    st.builds(lambda made: Model(tuple(made)), layers),
    st.floats(1.0, 1e4),
    st.integers(1, 512),
    networks,
    st.sampled_from(scaling.ALGORITHMS),
    st.floats(1e4, 1e9),
)


def test_two_buckets_by_hand():
    # Forward ends at 0.1; the last layer's bucket is ready at 0.25 and has arrived at 0.35; the
    # first's is ready at 0.3, waits for that, and arrives at 0.45: 0.15 s after backward.
    assert scaling.buckets(TRAINING) == [(pytest.approx(0.25), 1e5), (pytest.approx(0.3), 1e5)]
    step = predict(TRAINING, 2).step
    assert step.compute == pytest.approx(0.3)
    assert step.exposed == pytest.approx(0.15)
    assert step.seconds == pytest.approx(0.45)
    assert predict(TRAINING, 2).images_per_s == pytest.approx(2 * 3 / 0.45)
    assert predict(TRAINING, 2).efficiency == pytest.approx(0.3 / 0.45)


def test_without_overlap_all_buckets_come_after_backward():
    assert predict(replace(TRAINING, overlap=False), 2).step.exposed == pytest.approx(0.2)


def test_a_batch_that_all_share_is_as_fast_on_one_rank_and_leaves_more_to_send():
    shared = replace(TRAINING, global_batch=12, overlap=False)
    assert predict(shared, 1).images_per_s == pytest.approx(10)
    # Four ranks have 3 images each: the step of weak scaling. Two have 6.
    assert predict(shared, 4) == predict(replace(TRAINING, overlap=False), 4)
    assert predict(shared, 2).step.compute == pytest.approx(0.6)
    assert predict(shared, 2).images_per_s == pytest.approx(12 / (0.6 + 0.2))


def test_one_bucket_for_all_leaves_when_backward_has_ended():
    whole = replace(TRAINING, bucket_bytes=1e9)
    assert scaling.buckets(whole) == [(pytest.approx(0.3), 2e5)]
    assert predict(whole, 2).step.exposed == pytest.approx(0.2)


def test_float16_gradients_are_half_the_bytes():
    half = replace(TRAINING, gradient_share=0.5, bucket_bytes=5e4)
    # 0.05 s each: the first ends at 0.3, just when the second begins.
    assert predict(half, 2).step.exposed == pytest.approx(0.05)


def test_half_the_rate_is_twice_the_seconds_of_a_bucket():
    assert scaling.bucket_seconds(TRAINING, 1e5, 2, 0.5) == pytest.approx(0.2)


def test_straggling_is_the_expected_slowest_of_all():
    step = predict(TRAINING, 2, Constants(straggling=0.1)).step
    assert step.straggling == pytest.approx(0.1 * 0.3 * 0.564, rel=0.06)  # 1/√π for two
    assert scaling.expected_largest(1) == 0.0
    assert scaling.expected_largest(256) == pytest.approx(2.8, abs=0.05)


def test_input_counts_only_where_it_takes_longer_than_the_rest():
    assert predict(replace(TRAINING, input=Input(each=3 / 0.45)), 2).step.input == pytest.approx(0)
    slow = predict(replace(TRAINING, input=Input(each=3 / 0.6)), 2)
    assert slow.step.input == pytest.approx(0.15)
    assert slow.images_per_s == pytest.approx(2 * 3 / 0.6)
    shared = predict(replace(TRAINING, input=Input(shared=4.0)), 2)
    assert shared.images_per_s == pytest.approx(4.0)


def test_the_shares_are_of_the_whole_step():
    shares = predict(TRAINING, 2).step.shares
    assert shares == pytest.approx(
        {"compute": 2 / 3, "exposed": 1 / 3, "straggling": 0, "input": 0}
    )


NODES = Network((Level(4, Cost(1e-6, 1e-10)), Level(None, Cost(1e-5, 1e-9))))


def test_a_ring_pays_for_each_link_on_its_way():
    training = replace(TRAINING, network=NODES)
    n = 1e8
    # 8 ranks on 2 nodes: 14 messages, 2 of them between nodes; bytes at the slow link's rate.
    expected = 12 * 1e-6 + 2 * 1e-5 + 2 * 7 / 8 * n * 1e-9
    assert scaling.bucket_seconds(training, n, 8) == pytest.approx(expected)
    inside = all_reduce_seconds("ring", n, 4, NODES.levels[0].cost)
    assert scaling.bucket_seconds(training, n, 4) == pytest.approx(inside)


def test_a_double_tree_has_the_bytes_of_a_ring_and_fewer_messages():
    training = replace(TRAINING, network=NODES, algorithm="double-tree")
    n = 1e8
    for ranks, inside, between in ((512, 6, 14), (8, 6, 2), (9, 4, 4), (4, 4, 0), (2, 2, 0)):
        byte = NODES.levels[1 if between else 0].cost.beta
        expected = inside * 1e-6 + between * 1e-5 + 2 * (ranks - 1) / ranks * n * byte
        assert scaling.bucket_seconds(training, n, ranks) == pytest.approx(expected, rel=1e-12)
    ring = replace(training, algorithm="ring")
    assert scaling.bucket_seconds(ring, n, 512) - scaling.bucket_seconds(training, n, 512) == (
        pytest.approx((768 - 6) * 1e-6 + (254 - 14) * 1e-5)
    )


def test_hierarchical_agrees_with_the_formula_for_two_levels():
    training = replace(TRAINING, network=NODES, algorithm="hierarchical")
    inner, outer = (level.cost for level in NODES.levels)
    for ranks in (4, 8, 32, 512):
        expected = all_reduce_seconds("hierarchical", 1e8, ranks, inner, 4, outer)
        assert scaling.bucket_seconds(training, 1e8, ranks) == pytest.approx(expected)


def test_naive_sends_everything_through_one_link():
    training = replace(TRAINING, network=NODES, algorithm="naive")
    for ranks, level in ((4, 0), (8, 1)):
        expected = all_reduce_seconds("naive", 1e6, ranks, NODES.levels[level].cost)
        assert scaling.bucket_seconds(training, 1e6, ranks) == pytest.approx(expected)


def test_three_levels_are_taken_one_after_the_other():
    costs = Cost(0, 1e-10), Cost(0, 1e-9), Cost(0, 1e-8)
    network = Network(tuple(Level(n, c) for n, c in zip((2, 4, None), costs, strict=True)))
    training = replace(TRAINING, network=network, algorithm="hierarchical")
    n = 8e6
    expected = n * 1e-10 + n / 2 * 2e-9 + n / 4 * 4e-8  # 2 (2-1)/2 = 1 of what is left, thrice
    assert scaling.bucket_seconds(training, n, 8) == pytest.approx(expected)
    assert network.groups(8) == [8, 4, 2, 1]


def test_a_node_that_is_not_full_counts_as_one():
    assert NODES.groups(9) == [9, 3, 1]
    assert NODES.groups(3) == [3, 1, 1]


def test_buckets_are_filled_as_by_deal():
    sizes = [7e5, 2e5, 3e5, 9e5, 1e5, 1e5]
    model = Model(tuple(Layer(str(n), 1.0, size) for n, size in enumerate(sizes)))
    made = scaling.buckets(replace(TRAINING, model=model, bucket_bytes=5e5))
    names = {str(n): sizes[n] for n in reversed(range(6))}
    groups = dealt.deal(names, 5e5)
    assert [nbytes for _, nbytes in made] == [sum(names[n] for n in group) for group in groups]


@given(trainings)
def test_one_rank_has_no_communication_and_waits_for_nobody(training):
    one = predict(training, 1, Constants(0.5, 0.3))
    assert one.step.seconds == training.compute
    assert one.efficiency == 1.0


@given(trainings, worlds)
def test_overlap_is_never_slower_and_never_hides_the_last_bucket(training, ranks):
    with_overlap = scaling.exposed_seconds(training, ranks)
    without = scaling.exposed_seconds(replace(training, overlap=False), ranks)
    assert with_overlap <= without * (1 + 1e-9) + ROUNDING
    if ranks > 1:
        ready, nbytes = scaling.buckets(training)[-1]
        last = scaling.bucket_seconds(training, nbytes, ranks)
        assert with_overlap >= (ready + last - training.compute) * (1 - 1e-9) - ROUNDING


@given(trainings, worlds, st.floats(0.02, 1.0), st.floats(0.02, 1.0))
def test_more_bandwidth_is_never_slower(training, ranks, a, b):
    low, high = sorted((a, b))
    slow, fast = (scaling.exposed_seconds(training, ranks, rate) for rate in (low, high))
    assert fast <= slow * (1 + 1e-9) + ROUNDING


def no_faster_outwards(network):
    """The network with its links in order: none across nodes is faster than one inside."""
    costs = [level.cost for level in network.levels]
    in_order = zip(sorted(c.alpha for c in costs), sorted(c.beta for c in costs), strict=True)
    return Network(
        tuple(
            replace(level, cost=Cost(*cost))
            for level, cost in zip(network.levels, in_order, strict=True)
        )
    )


@given(trainings, worlds, worlds)
def test_efficiency_does_not_grow_with_whole_nodes(training, a, b):
    training = replace(training, network=no_faster_outwards(training.network))
    few, many = sorted(training.network.levels[0].ranks * n for n in (a, b))
    constants = Constants(0.5, 0.05)
    efficiencies = [predict(training, ranks, constants).efficiency for ranks in (few, many)]
    assert efficiencies[1] <= efficiencies[0] * (1 + 1e-9)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="more ranks than the one before"):
        Network((Level(8, Cost(0, 1)), Level(4, Cost(0, 1))))
    with pytest.raises(ValueError, match="give each more"):
        Network(())
    with pytest.raises(ValueError, match="9 ranks on a network that joins 1 to 8"):
        predict(replace(TRAINING, network=Network((Level(8, Cost(0, 1)),))), 9)
    with pytest.raises(
        ValueError, match="'tree' is not one of ring, double-tree, hierarchical, naive"
    ):
        replace(TRAINING, algorithm="tree")
    with pytest.raises(ValueError, match="batch is 0"):
        replace(TRAINING, batch=0)
