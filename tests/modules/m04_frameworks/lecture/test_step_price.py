from hpml.modules.m04_frameworks.lecture import step_price
from hpml.modules.m04_frameworks.lecture.operators_run import recorded
from hpml.modules.m04_frameworks.lecture.step_price import StepPrice

IDLE = StepPrice(140, 2e-6, 1e-3, {1: 12e-3, 256: 1.8})


def test_a_fixed_price_is_a_small_share_of_a_large_batch():
    assert IDLE.is_fixed
    assert f"{IDLE.share(1):.0%}, {IDLE.share(256):.2%}" == "8%, 0.06%"
    assert "step at batch 256" in str(IDLE)


def test_a_step_as_short_as_the_thin_networks_is_not():
    assert not StepPrice(140, 2e-6, 1e-3, {1: 2e-3, 256: 1.8}).is_fixed
    assert not StepPrice(140, 2e-5, 1e-3, {1: 12e-3, 256: 1.8}).is_fixed


def test_the_thin_network_runs_the_same_operators():
    names = [
        [one.name for one in recorded(step_price._Training(widths, 1, pixels).step)]
        for widths, pixels in (
            (step_price.THIN, step_price.FEW_PIXELS),
            (step_price.WIDTHS, step_price.PIXELS),
        )
    ]
    assert names[0] == names[1]
    assert len(names[0]) > 100
