"""Loss and accuracy over uneven shards are those over all images."""

import pytest
import torch
from torch.nn import functional as F

from hpml.ranks import launch
from hpml.train.totals import Totals, means


@pytest.mark.parametrize("shards", [[[5], [1]], [[4, 3], [2], []], [[7, 7, 1]]])
def test_metrics_are_exact_over_uneven_shards(shards):
    """Ranks with batches of these sizes, one of them perhaps with none at all."""
    generator = torch.Generator().manual_seed(0)
    inputs = [
        [
            (torch.randn(n, 4, generator=generator), torch.randint(0, 4, (n,), generator=generator))
            for n in rank
        ]
        for rank in shards
    ]

    def drive(batches):
        totals = Totals()
        for logits, labels in batches:
            totals.add(logits, labels)
        return list(means(totals.over_ranks()))

    evidence = launch(drive, len(shards), inputs=inputs)
    assert evidence.diagnosis is None
    logits = torch.cat([logits for rank in inputs for logits, _ in rank])
    labels = torch.cat([labels for rank in inputs for _, labels in rank])
    loss = F.cross_entropy(logits, labels).item()
    accuracy = (logits.argmax(1) == labels).double().mean().item()
    for value in evidence.values:
        assert value == pytest.approx([loss, accuracy], rel=1e-6)


def test_it_goes_on_from_what_was_counted_before():
    totals = Totals(sums=[10.0, 3.0, 5.0])
    totals.add(torch.tensor([[0.0, 100.0]]), torch.tensor([1]))
    assert means(totals.over_ranks()) == pytest.approx((10 / 6, 4 / 6))


def test_nothing_counted_is_no_number():
    assert all(value != value for value in means(Totals().over_ranks()))
