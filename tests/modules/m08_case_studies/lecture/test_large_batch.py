"""Training by rule, batch and seed: rates, shares of the work, and both sides of what is held."""

import pytest
import torch

from hpml.frameworks.lars import LARS
from hpml.modules.m08_case_studies.lecture import large_batch, large_batch_findings
from hpml.modules.m08_case_studies.lecture.lamb import LAMB
from hpml.modules.m08_case_studies.lecture.large_batch import Rule, Run, learning_rate, sgd, train
from hpml.modules.m08_case_studies.lecture.large_batch_findings import limit, limits, percent, rates
from hpml.modules.m08_case_studies.lecture.large_batch_picture import batch_picture, rate_picture


def test_a_rate_follows_the_batch_by_its_power():
    assert Rule(sgd, 0.01).highest(64) == 0.01
    assert Rule(sgd, 0.01).highest(256) == pytest.approx(0.04)
    assert Rule(LAMB, 0.01, power=0.5).highest(256) == pytest.approx(0.02)


def test_the_rate_warms_up_and_goes_to_0():
    warmed = [learning_rate(epoch, 1.0, 5.0, 1, 6) for epoch in (0, 0.5, 1, 3.5, 6)]
    assert warmed == [1.0, 3.0, 5.0, 2.5, 0.0]
    assert [learning_rate(epoch, 5.0, 5.0, 0, 6) for epoch in (0, 3)] == [5.0, 2.5]


class Recorded(torch.optim.SGD):
    """Keeps the rate of each step."""

    rates: list[float] = []  # noqa: RUF012

    def step(self, closure=None):
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


@pytest.mark.parametrize(
    ("warm_up", "expected"), [(False, [0.4, 0.3, 0.2, 0.1]), (True, [0.1, 0.25, 0.4, 0.2])]
)
def test_each_step_has_the_rate_of_its_epoch(warm_up: bool, expected: list[float]):
    Recorded.rates.clear()
    rule = Rule(lambda p, lr: Recorded(p, lr=lr), 0.1, warm_up=warm_up)
    train(Run(rule, 256, seed=0), torch.randn(512, 12), torch.zeros(512).long(), epochs=2)
    assert Recorded.rates == pytest.approx(expected)


@pytest.mark.parametrize("optimizer", [sgd, LARS, LAMB])
def test_a_seed_decides_all_that_is_drawn(optimizer):
    images, labels = torch.randn(128, 12), torch.randint(0, 10, (128,))
    once, again, other = (
        list(train(Run(Rule(optimizer, 0.01), 64, seed), images, labels, 2).parameters())
        for seed in (0, 0, 1)
    )
    assert all(map(torch.equal, once, again))
    assert not torch.equal(once[0], other[0])


def test_runs_are_shared_out_and_come_back_in_order(monkeypatch: pytest.MonkeyPatch):
    rule = Rule(sgd, 0.02)
    runs = [Run(rule, 2048, 0, rate=0.0), Run(rule, 128, 0), Run(rule, 2048, 0, rate=0.0)]
    found = large_batch.accuracies(runs)
    assert found[0] == found[2] < found[1]
    monkeypatch.setattr(large_batch, "usable_cores", lambda: 1.0)
    assert large_batch.accuracies(runs[:1]) == found[:1]


def curve(*percent: float, spread: float = 0.01) -> dict[float, tuple[float, ...]]:
    """Of batches of 64, 256, ... with three seeds that differ by `spread`."""
    return {
        64 * 4**k: (each / 100 - spread / 2, each / 100, each / 100 + spread / 2)
        for k, each in enumerate(percent)
    }


def test_the_limit_is_before_the_first_batch_that_fell():
    assert limit(curve(46, 45, 40, 46)) == 256
    assert limit(curve(46, 45, 44, 43)) == 4096


def test_the_linear_rule_falls_and_others_move_the_limit_or_not():
    plain = curve(46, 45, 20, 11)
    found = limits({"linear rule": plain, "LARS": curve(46, 45, 44, 33), "LAMB": plain})
    assert found.held
    assert found.batches == {"linear rule": 256, "LARS": 1024, "LAMB": 256}
    assert (found.moved, found.within) == (["LARS"], [])
    assert found.apart == pytest.approx(0.01)
    found = limits({"linear rule": plain, "LARS": plain})
    assert (found.held, found.moved) == (True, [])
    assert limits({"linear rule": plain, "LARS": curve(46, 45, 44, 43)}).within == ["LARS"]


def test_a_linear_rule_that_holds_or_seeds_that_differ_are_reported():
    found = limits({"linear rule": curve(46, 45, 44, 43), "LARS": curve(46, 46, 46, 46)})
    assert not found.held
    assert found.batches["linear rule"] == 4096
    noisy = curve(46, 45, 20, 11, spread=0.06)
    found = limits({"linear rule": noisy, "LARS": noisy})
    assert not found.held
    assert found.apart == pytest.approx(0.06)


def test_another_rate_brings_much_and_an_optimizer_more_or_no_more():
    curves = {"linear rule": curve(46, 45, 20, 11)}
    sgd_curve = curve(20, 27, 25)
    found = rates({"SGD": sgd_curve, "LARS": curve(30, 33, 32)}, curves)
    assert (found.held, found.above) == (True, ["LARS"])
    assert [percent(seeds) for seeds in found.best.values()] == ["27.0 %", "33.0 %"]
    assert (found.lost, found.back, found.more) == pytest.approx((0.35, 0.16, 0.06))
    found = rates({"SGD": sgd_curve, "LARS": curve(26, 27.5)}, curves)
    assert (found.held, found.above) == (True, [])


@pytest.mark.parametrize(("best", "back"), [(12, 0.01), (46, 0.35)])
def test_rates_that_bring_nothing_or_everything_are_reported(best: float, back: float):
    tuned = {"SGD": curve(best), "LARS": curve(best)}
    found = rates(tuned, {"linear rule": curve(46, 45, 20, 11)})
    assert not found.held
    assert found.back == pytest.approx(back)


def test_names_are_listed_as_people_do():
    assert [large_batch_findings.listed("abc"[:k]) for k in (1, 2, 3)] == [
        "a",
        "a and b",
        "a, b and c",
    ]


def test_a_line_for_each_rule_and_a_tick_for_each_batch():
    axes = batch_picture({"a": curve(46, 45), "b": curve(44, 43)}, "title").axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["64", "256"]
    assert "%" in axes.get_ylabel()
    by_rate = rate_picture({"b": {0.5: (0.1, 0.2), 1.0: (0.2, 0.3)}}, "title", "ab").axes[0]
    assert [tick.get_text() for tick in by_rate.get_xticklabels()] == ["1/2", "1"]
    colours = [bars.lines[0].get_color() for bars in (*axes.containers, *by_rate.containers)]
    assert colours[0] != colours[1] == colours[2]


def test_the_pictures_message_is_computed():
    plain = curve(46, 45, 20, 11)
    curves = {"linear rule": plain, "LARS": curve(46, 45, 44, 33), "LAMB": plain}
    further = large_batch_findings.headline_of_limits(curves)
    assert further == "The linear rule keeps the accuracy up to a batch of 256; LARS up to 1024"
    alike = large_batch_findings.headline_of_limits({"linear rule": plain, "LAMB": plain})
    assert alike.endswith("up to a batch of 256, and no other goes further")
    best = large_batch_findings.headline_of_rates({"SGD": plain, "LARS": curve(30, 34)}, 4096)
    assert best == "A batch of 4096 with the best of these rates: SGD 46 %, LARS 34 %"
