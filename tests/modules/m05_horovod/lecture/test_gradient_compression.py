"""What compression saves is concluded from bytes and from losses, and from both."""

import pytest

from hpml.modules.m05_horovod.lecture.gradient_compression import Training, saved, train
from hpml.ranks import flavour

PLAIN = Training((2.4, 2.3), 10.0)


@pytest.mark.parametrize(
    ("fp16", "held"),
    [
        (Training((2.4, 2.3), 5.1), True),
        (Training((2.4, 2.3), 9.0), False),  # as many bytes as before
        (Training((2.4, 2.5), 5.1), False),  # another loss
    ],
)
def test_half_the_bytes_and_the_same_loss_are_both_needed(fp16, held):
    assert saved(PLAIN, fp16).held is held


@pytest.mark.skipif(flavour.missing("horovod") is not None, reason="needs Horovod for PyTorch")
def test_the_loss_with_compression_is_nearly_that_without():
    plain, fp16 = train("none"), train("fp16")
    assert plain.losses != fp16.losses  # something was rounded
    assert plain.losses == pytest.approx(fp16.losses, abs=0.01)
