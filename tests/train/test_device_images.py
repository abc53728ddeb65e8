"""A batch is the same, whether its images lie in memory or in their files."""

import torch

from hpml.data import load
from hpml.train.device_images import Images

CPU = torch.device("cpu")


def test_a_kept_batch_is_the_mapped_one():
    split = load().test
    index = torch.tensor([9_999, 0, 17, 17])
    mapped, kept = (Images(split, CPU, keep=keep).batch(index) for keep in (None, True))
    for one, other in zip(mapped, kept, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    assert mapped[0].shape == (4, 3, 32, 32)
    assert mapped[1].tolist() == split.labels[index.numpy()].tolist()
