"""How many times as fast."""

from hpml.measure.gain import Gain


def test_a_gain_is_a_ratio_of_medians_and_its_spread_is_over_the_turns():
    gain = Gain((3.0, 4.0, 50.0), (1.0, 2.0, 4.0))
    assert (gain.factor, gain.least, gain.most) == (2.0, 2.0, 12.5)
    assert gain.clear
    assert str(gain) == "2.00 (2.00 to 12)"
    assert not Gain((3.0, 4.0), (2.0, 5.0)).clear
