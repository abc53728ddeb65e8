"""Two constants from a few points: planted ones come back, and doubt shows as a wide interval."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from hpml.predict.collectives import Cost
from hpml.predict.scaling import Constants, Level, Network, Training, predict
from hpml.predict.scaling_fit import (
    DRIFT,
    NOISE,
    RATES,
    STRAGGLING,
    Fitted,
    Point,
    fit,
    fit_without_one,
    pooled,
)


@dataclass(frozen=True)
class Layer:
    name: str
    flop: float
    parameter_bytes: float


@dataclass(frozen=True)
class Model:
    layers: tuple[Layer, ...]


MODEL = Model(tuple(Layer(str(n), 1e9, 1e7) for n in range(10)))  # 100 MB
NETWORK = Network((Level(8, Cost(3e-6, 1 / 80e9)), Level(None, Cost(14e-6, 1 / 1.25e9))))
TRAINING = Training(MODEL, images_per_s=200.0, batch=32, network=NETWORK)


def points(constants: Constants, *ranks: int) -> list[Point]:
    return [Point(n, predict(TRAINING, n, constants).images_per_s) for n in ranks]


@pytest.mark.parametrize(
    "planted", [Constants(0.3, 0.02), Constants(0.5, 0.1), Constants(0.06, 0.01)]
)
def test_planted_constants_are_predicted_within_the_interval(planted):
    fitted = fit(TRAINING, points(planted, 1, 2, 4, 8, 16))
    for point in points(planted, 32, 64, 256):
        assert point.images_per_s in fitted.interval(point.ranks)
        predicted = fitted.predict(point.ranks).images_per_s
        assert predicted == pytest.approx(point.images_per_s, rel=0.05)


def test_the_constants_themselves_where_they_show():
    fitted = fit(TRAINING, points(Constants(0.1, 0.1), 2, 4, 8, 16))
    assert fitted.constants.rate == pytest.approx(0.1, rel=0.2)
    assert fitted.constants.straggling == pytest.approx(0.1, rel=0.3)


def test_points_within_a_node_leave_the_network_open():
    planted = Constants(0.3, 0.02)
    near, far = (fit(TRAINING, points(planted, *ranks)) for ranks in [(1, 2, 4), (1, 2, 4, 16)])
    widths = [one.interval(64).high / one.interval(64).low for one in (near, far)]
    assert widths[0] > 2 * widths[1]
    assert near.interval(64).low < far.predict(64).images_per_s < near.interval(64).high


def test_the_interval_holds_what_is_predicted_and_grows_with_its_share():
    fitted = fit(TRAINING, points(Constants(0.3, 0.05), 8, 16))
    for ranks in (16, 64, 512):
        narrow, wide = fitted.interval(ranks, 0.5), fitted.interval(ranks)
        assert wide.low < narrow.low < narrow.high < wide.high
        assert fitted.predict(ranks).images_per_s in wide


def test_an_interval_grows_with_each_doubling_beyond_the_largest_point():
    sure = replace(TRAINING, network=Network((Level(None, Cost(0.0, 0.0)),)))
    none = np.zeros((len(RATES), len(STRAGGLING)))
    none[-1, 0] = 1.0
    fitted = Fitted(sure, (Point(8, 1600.0),), RATES, none)
    widths = [fitted.interval(n).high / fitted.interval(n).low - 1 for n in (4, 8, 16, 32)]
    assert widths[0] == pytest.approx(widths[1], rel=0.01)
    assert widths[1] < widths[2] < widths[3]
    assert widths[2] / widths[1] == pytest.approx(1 + DRIFT / NOISE, rel=0.1)
    assert widths[3] / widths[1] == pytest.approx(1 + 2 * DRIFT / NOISE, rel=0.2)


def test_points_of_a_shared_batch_bring_the_planted_constants_back():
    shared = replace(TRAINING, global_batch=2048, overlap=False)
    planted = Constants(0.3, 0.05)
    measured = [Point(n, predict(shared, n, planted).images_per_s) for n in (1, 8, 16, 256)]
    fitted = fit(shared, measured[:3])
    assert fitted.predict(256).batch == 8
    assert measured[3].images_per_s in fitted.interval(256)
    assert fitted.predict(256).images_per_s == pytest.approx(measured[3].images_per_s, rel=0.05)


def test_the_parts_are_those_of_the_mean_step():
    fitted = fit(TRAINING, points(Constants(0.3, 0.05), 8, 16))
    predicted = fitted.predict(64)
    assert sum(predicted.step.shares.values()) == pytest.approx(1)
    assert predicted.step.compute == TRAINING.compute
    assert fitted.predict(1).images_per_s == pytest.approx(TRAINING.images_per_s)


def test_weights_add_up_and_without_points_all_weigh_the_same():
    fitted = fit(TRAINING, [])
    assert fitted.weights.sum() == pytest.approx(1)
    assert fitted.weights.max() == fitted.weights.min()


def test_where_nobody_measured_one_rank_the_fewest_stand_for_it():
    planted = Constants(1.0, 0.05)
    unknown = replace(TRAINING, images_per_s=1.0)
    fitted = fit_without_one(unknown, points(planted, 8, 16))
    near = points(planted, 8)[0].images_per_s
    assert fitted.predict(8).images_per_s == pytest.approx(near, rel=0.01)
    assert fitted.training.images_per_s == pytest.approx(200, rel=0.06)
    far = points(planted, 256)[0].images_per_s
    assert fitted.predict(256).images_per_s == pytest.approx(far, rel=0.06)


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_images_per_second_must_be_above_0(wrong):
    with pytest.raises(ValueError, match="on 4 ranks: not above 0"):
        fit(TRAINING, [Point(4, wrong)])


def test_pooled_constants_are_between_those_of_the_fits():
    fits = [fit(TRAINING, points(Constants(rate, 0.05), 8, 16, 32)) for rate in (0.05, 0.5)]
    other = replace(TRAINING, images_per_s=150.0)
    both = pooled(fits, other)
    assert both.weights.sum() == pytest.approx(1)
    low, middle, high = (
        replace(one, training=other).predict(64).images_per_s for one in (fits[0], both, fits[1])
    )
    assert low < middle < high
    assert both.interval(64).high / both.interval(64).low > high / low
