"""One run, whatever the layout of its ranks: the losses of data parallel, and of one rank."""

import sys
from functools import cache

import cloudpickle
import numpy as np
import pytest
import torch

from hpml.data.cifar10 import Data
from hpml.errors import UserError
from hpml.ranks import launch
from hpml.train import Run, requests
from hpml.train.config import TrainConfig
from hpml.train.layout import Layout, lay_out
from hpml.train.state import local
from hpml.train.totals import Totals

from .test_run import CPU, small_data, vit_config

# Ranks get what they run by value; they cannot import a test.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

GLOBAL_BATCH = 24  # images in a step of all copies together


def config(copies: int, **changes) -> TrainConfig:
    """A short run in which `copies` of the network together see GLOBAL_BATCH images a step."""
    return vit_config(**{"batch_size": GLOBAL_BATCH // copies, "micro_batches": 3} | changes)


def losses(asked: TrainConfig, data: Data) -> list[tuple[float, ...]]:
    """Training loss, number of images trained on, test loss and accuracy after each epoch."""
    run = Run(asked, data, CPU)
    run.augment = lambda images, index, consumed: images  # each copy draws its own
    history = run.train(requests.Requests())
    return [
        (e.train_loss, e.images_per_second * e.seconds, e.test_loss, e.test_accuracy)
        for e in history.epochs
    ]


@cache
def alone() -> list[tuple[float, ...]]:
    return losses(config(1), small_data(60))


def gradients(asked: TrainConfig, data: Data) -> dict[str, torch.Tensor]:
    """By name, whole, those of one step on the first images."""
    run = Run(asked, data, CPU)
    run.augment = lambda images, index, consumed: images
    run.step(torch.arange(GLOBAL_BATCH)[run.replica :: run.replicas], Totals())
    return {
        name: getattr(p.grad, "full_tensor", lambda p=p: p.grad)()
        for name, p in run.network.named_parameters()
        if p.requires_grad
    }


def on_ranks(count: int, asked: TrainConfig) -> list[dict]:
    data = small_data(60)

    def drive(rank):
        return {"gradients": gradients(asked, data), "losses": losses(asked, data)}

    evidence = launch(drive, count, inputs=list(range(count)))
    assert evidence.diagnosis is None, evidence.diagnosis
    return list(evidence.values)


LAYOUTS = {  # name: ranks, copies, options
    "data 4": (4, 4, {}),
    "zero1 4": (4, 4, {"shard": "zero1"}),
    "fsdp 4": (4, 4, {"shard": "fsdp"}),
    "fsdp 3": (3, 3, {"shard": "fsdp"}),  # divides next to nothing
    "data 2 × tensor 2": (4, 2, {"tensor": 2}),
    "data 2 × pipeline 2": (4, 2, {"pipeline": 2}),
    "pipeline 2 × tensor 2": (4, 1, {"pipeline": 2, "tensor": 2}),
    "fsdp 2 × tensor 2": (4, 2, {"tensor": 2, "shard": "fsdp"}),
    "fsdp 2 × pipeline 2": (4, 2, {"pipeline": 2, "shard": "fsdp"}),
    "zero1 2 × pipeline 2": (4, 2, {"pipeline": 2, "shard": "zero1"}),
    "pipeline 3": (3, 1, {"pipeline": 3}),  # of four blocks
    "fsdp 2 × pipeline 2 × tensor 2": (8, 2, {"shard": "fsdp", "pipeline": 2, "tensor": 2}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_trains_as_one_rank_does(layout):
    """In its gradients too: Adam's steps do not show their scale."""
    ranks, copies, options = LAYOUTS[layout]
    expected = gradients(config(1), small_data(60))
    assert alone()[-1][0] < alone()[0][0]
    seen = set()
    for value in on_ranks(ranks, config(copies, **options)):
        np.testing.assert_allclose(value["losses"], alone(), rtol=1e-4)
        seen |= value["gradients"].keys()
        for name, gradient in value["gradients"].items():
            torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6)
    assert seen == expected.keys()


def held(asked: TrainConfig, data: Data) -> list[int]:
    """Numbers on this rank: of parameters, and of their optimizer states."""
    run = Run(asked, data, CPU)
    run.step(torch.arange(asked.batch_size), Totals())
    tensors = run.tensors()
    return [
        sum(local(value).numel() for name, value in tensors.items() if name.startswith(kind))
        for kind in ("network.", "optimizer.")
    ]


def share(layout: str) -> np.ndarray:
    """What each rank holds of one whole network's parameters and optimizer states."""
    ranks, copies, options = LAYOUTS[layout]
    data, asked = small_data(60), config(copies, **options)
    evidence = launch(lambda rank: held(asked, data), ranks, inputs=list(range(ranks)))
    assert evidence.diagnosis is None, evidence.diagnosis
    return np.array(evidence.values) / held(config(1), data)


def test_ranks_hold_of_the_network_and_of_the_states_what_their_layout_says():
    assert (share("data 4") == 1).all()
    np.testing.assert_allclose(share("fsdp 4"), 1 / 4, atol=0.02)
    zero1 = share("zero1 4")
    assert (zero1[:, 0] == 1).all()
    np.testing.assert_allclose(zero1[:, 1], 1 / 4, atol=0.1)  # whole parameters on each
    assert zero1[:, 1].sum() == pytest.approx(1)
    # Not split: patches, positions, norms, biases of rows, head.
    np.testing.assert_allclose(share("data 2 × tensor 2"), 1 / 2, atol=0.03)
    pipeline = share("data 2 × pipeline 2")
    np.testing.assert_allclose(pipeline, 1 / 2, atol=0.03)
    np.testing.assert_allclose(pipeline[[0, 2]] + pipeline[[1, 3]], 1)
    np.testing.assert_allclose(share("fsdp 2 × tensor 2"), 1 / 4, atol=0.03)


@pytest.mark.parametrize("shard", ["zero1", "fsdp"])
def test_the_residual_network_sharded_trains_as_it_does_data_parallel(shard):
    """Each copy normalises its own batch, so that one rank alone would not do the same."""
    residual = {"model": "residual", "widths": (8, 16), "lr": 0.05, "early_share": 0.0}
    whole = on_ranks(2, config(2, **residual))[0]
    for value in on_ranks(2, config(2, shard=shard, **residual)):
        np.testing.assert_allclose(value["losses"], whole["losses"], rtol=1e-4)
        torch.testing.assert_close(value["gradients"], whole["gradients"], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "ranks", "message"),
    [
        ({"tensor": 2}, 3, "--pipeline 1 × --tensor 2 does not divide 3 ranks: start a multiple"),
        ({"tensor": 2}, 1, "does not divide 1 rank: start a multiple of 2"),
        ({"tensor": 3}, 3, "--tensor is 3, and the tiny transformer has 4 heads"),
        ({"pipeline": 5}, 5, "--pipeline is 5, and the tiny transformer has 4 blocks"),
    ],
)
def test_a_layout_that_cannot_be_is_one_line(options, ranks, message):
    with pytest.raises(UserError, match=r"^--") as refused:
        lay_out(config(1, **options), ranks)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_one_copy_has_nothing_to_shard():
    assert lay_out(config(1, shard="fsdp"), 1).is_plain
    assert not lay_out(config(1, shard="fsdp"), 2).is_plain
    assert lay_out(config(1, shard="fsdp", tensor=2), 6) == Layout(3, 1, 2, "fsdp")
