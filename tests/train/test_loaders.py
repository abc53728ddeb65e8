"""Whatever way a batch is made ready, it is the same batch."""

import pytest
import torch

from hpml.train import Run, loaders, requests
from hpml.train.config import TrainConfig

from .test_run import CPU, small_config, small_data


def run_with(**changes) -> Run:
    return Run(small_config(**changes), small_data(), CPU)


@pytest.mark.parametrize("early_size", [16, 32])
def test_an_image_at_a_time_has_the_pixels_of_a_whole_batch(early_size):
    index = torch.tensor([3, 0, 41, 7])
    for epoch in (0, 1):
        pixels = []
        for loader in ("batch", "images"):
            run = run_with(loader=loader, early_share=1.0, early_size=early_size)
            run.position.epoch = epoch
            pixels.append(run.ready(index, consumed=8))
        (these, their_labels), (those, labels) = pixels
        assert torch.equal(labels, their_labels)
        torch.testing.assert_close(those, these, rtol=0, atol=0)
        assert those.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("loader", ["images", "ahead"])
def test_a_training_is_the_same_with_each_loader(loader):
    plain, other = (
        run_with(loader=name, batch_size=10).train(requests.Requests())
        for name in ("batch", loader)
    )
    for one, two in zip(plain.epochs, other.epochs, strict=True):
        assert (one.train_loss, one.test_loss) == (two.train_loss, two.test_loss)


def test_contiguous_and_channels_last_learn_the_same():
    histories = [
        run_with(memory_format=name, lr=0.01).train(requests.Requests())
        for name in ("contiguous", "channels_last")
    ]
    one, other = (history.epochs[0].train_loss for history in histories)
    assert one == pytest.approx(other, rel=1e-3)
    run = run_with(memory_format="contiguous")
    assert run.ready(torch.arange(4), 0)[0].is_contiguous()
    assert all(parameter.is_contiguous() for parameter in run.network.parameters())


def test_ahead_hands_out_every_batch_in_order_and_is_never_far_ahead():
    asked = []

    def ready(batch, begin):
        asked.append(begin)
        return batch + begin

    numbers = [torch.tensor(k) for k in range(7)]
    taken = []
    for done, batch in enumerate(loaders.ahead(ready, numbers, range(7))):
        taken.append(int(batch))
        assert len(asked) <= done + 1 + loaders.AHEAD
    assert taken == [2 * k for k in range(7)]


def test_an_error_of_the_thread_is_raised_where_its_batch_is_due():
    def ready(batch, begin):
        if begin == 2:
            raise OSError("a torn file")
        return begin

    batches = loaders.ahead(ready, [torch.arange(1)] * 4, range(4))
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(OSError, match="a torn file"):
        next(batches)


def test_no_batch_is_no_batch():
    assert list(loaders.ahead(lambda batch, begin: begin, [], [])) == []
    assert TrainConfig().loader == "batch"
