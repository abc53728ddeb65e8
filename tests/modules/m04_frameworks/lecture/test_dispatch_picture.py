from hpml.modules.m04_frameworks.lecture.dispatch import Curve
from hpml.modules.m04_frameworks.lecture.dispatch_picture import dispatch_picture

SIZES = (1, 16, 256, 4096, 65536)


def test_price_and_knee_are_marked_where_there_is_a_knee():
    [axes] = dispatch_picture(Curve({n: 1e-6 + 1e-9 * n for n in SIZES}), title="t").axes
    assert len(axes.lines) == 3
    assert "µs" in axes.get_ylabel()
    [flat] = dispatch_picture(Curve(dict.fromkeys(SIZES, 1e-6)), title="t").axes
    assert len(flat.lines) == 2
