"""Training from files: the same batches whether read ahead or not, all of them learned from."""

import numpy as np
import torch

from hpml.data.formats import FORMATS
from hpml.modules.m02_hardware.lecture import prefetched_training
from hpml.modules.m02_hardware.lecture.prefetching import COMPUTE, READ


def test_each_way_reads_and_learns_from_every_batch(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (10, 3, 32, 32), np.uint8)
    FORMATS["files"].write(tmp_path / "files", images, np.arange(10))
    done = prefetched_training.train(tmp_path / "files", 4, batches=3, ahead=(0, 2), turns=2)
    assert list(done) == [0, 2]
    for spans in done.values():
        for what in (READ, COMPUTE):
            assert [span.batch for span in spans if span.what == what] == [0, 1, 2]


def test_what_is_saved_is_the_shorter_part_within_a_tolerance():
    parts = {READ: 15.0, COMPUTE: 17.0}
    assert prefetched_training.saves_the_shorter(32.0, 16.0, parts)
    for alone, together in ((32.0, 31.0), (32.0, 24.0), (48.0, 16.0)):
        assert not prefetched_training.saves_the_shorter(alone, together, parts)


def test_after_the_last_file_comes_the_first(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (10, 3, 32, 32), np.uint8)
    FORMATS["files"].write(tmp_path / "files", images, np.arange(10))
    read, learn = prefetched_training.parts(tmp_path / "files", 4)
    assert [read(number)[1].tolist() for number in (0, 2)] == [[0, 1, 2, 3], [8, 9, 0, 1]]
    pixels, labels = read(0)
    assert pixels.dtype == torch.float32
    learn((pixels, labels))
