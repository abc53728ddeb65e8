"""Bytes of tensors by kind are those of the storages that exist."""

import os
import signal
import sys

import cloudpickle
import pytest
import torch
from torch import nn

from hpml.ranks import launch

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # ranks do not import tests

MB = 10**6
LAYERS, WIDTH, BATCH = 8, 500, 1000  # 1 MB of weights each, 2 MB of each activation


def network():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])


def train(model, optimizer, steps=2):
    for _ in range(steps):
        model(torch.randn(BATCH, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def live(drive, ranks=1, **options):
    evidence = launch(drive, ranks, live=True, **options)
    assert evidence.diagnosis is None, evidence.diagnosis
    return [rank.live for rank in evidence.ranks]


def megabytes(kinds):
    return {kind: round(nbytes / MB, 1) for kind, nbytes in kinds.items()}


def test_without_being_asked_for_there_is_none():
    assert launch(lambda: 0, 1).ranks[0].live is None


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": True}])
def test_of_a_training_step(options):
    def drive():
        model = network()
        train(model, torch.optim.Adam(model.parameters(), **options))

    (found,) = live(drive)
    highest = megabytes(found.highest)
    assert highest["parameters"] == 8
    assert highest["gradients"] == 8
    assert highest["optimizer states"] == 16
    # The inputs of all layers but the first, and what the loss is made of
    assert 16 <= highest["activations"] <= 20
    # In the second step, when backward begins
    at_peak = megabytes(found.at_peak)
    assert (at_peak["parameters"], at_peak["optimizer states"]) == (8, 16)
    assert at_peak["activations"] == 16
    assert found.peak == sum(found.at_peak.values())


@pytest.mark.measures
def test_it_agrees_with_the_kernel():
    def drive():
        model = network()
        train(model, torch.optim.SGD(model.parameters(), 0.1))

    (rank,) = launch(drive, 1, live=True, count_memory=True).ranks
    assert abs(rank.peak_bytes - rank.live.peak) < 5 * MB


def test_what_is_freed_does_not_count():
    def drive():
        for _ in range(5):
            torch.ones(MB).add_(1)
        torch.ones(MB // 4).untyped_storage().resize_(2 * MB)

    (found,) = live(drive)
    assert megabytes(found.at_peak) == {
        "parameters": 0,
        "gradients": 0,
        "optimizer states": 0,
        "activations": 0,
        "other": 4,
    }


def test_a_forward_pass_without_gradients_keeps_nothing():
    def drive():
        model = network()
        with torch.no_grad():
            model(torch.randn(BATCH, WIDTH))

    (found,) = live(drive)
    assert megabytes(found.highest)["activations"] == 0


def test_checkpointing_keeps_less():
    def drive(checkpointed):
        from torch.utils.checkpoint import checkpoint_sequential

        model, x = network(), torch.randn(BATCH, WIDTH, requires_grad=True)
        run = checkpoint_sequential(model, 4, x, use_reentrant=False) if checkpointed else model(x)
        run.square().mean().backward()

    def activations(checkpointed):
        (found,) = live(drive, inputs=[checkpointed])
        return found.highest["activations"]

    assert activations(True) <= activations(False) - 4 * MB


@pytest.mark.parametrize("proxied", [False, True])
def test_with_data_parallel_gradients_lie_in_buckets(proxied):
    def drive():
        model = nn.parallel.DistributedDataParallel(network(), gradient_as_bucket_view=True)
        train(model, torch.optim.SGD(model.parameters(), 0.1))

    for found in live(drive, 2, proxied=proxied):
        assert megabytes(found.highest)["parameters"] == 8
        assert megabytes(found.highest)["gradients"] == 8
        assert megabytes(found.at_peak)["activations"] == 16  # and no memory shared with a proxy


def trained(way):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    if way == "FSDP":
        layers = [fully_shard(nn.Linear(WIDTH, WIDTH, bias=False)) for _ in range(LAYERS)]
        model = fully_shard(nn.Sequential(*layers))
    else:
        model = DistributedDataParallel(network(), gradient_as_bucket_view=True)
    if way == "ZeRO-1":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
    else:
        optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("way", ["DDP", "ZeRO-1", "FSDP"])
def test_each_kind_has_the_bytes_that_the_formula_says(way, ranks):
    """In layers: what is sharded is there once, and of its parameters one layer whole, in turn."""
    found = live(trained, ranks, inputs=[way] * ranks)
    of_all = {kind: sum(one.highest[kind] / MB for one in found) for kind in found[0].highest}
    copies = 1 if way == "FSDP" else ranks
    whole = ranks if way == "FSDP" else 0
    assert of_all["parameters"] == pytest.approx(copies * LAYERS + whole, rel=0.05)
    assert of_all["gradients"] == pytest.approx(copies * LAYERS, rel=0.05)
    copies = ranks if way == "DDP" else 1
    assert of_all["optimizer states"] == pytest.approx(2 * copies * LAYERS, rel=0.05)


def test_a_sharded_model_is_made_without_memory_first():
    def drive():
        from torch.distributed.fsdp import fully_shard

        with torch.device("meta"):
            model = network()
        for layer in (*model, model):
            fully_shard(layer)
        del layer
        model.to_empty(device="cpu")
        train(model, torch.optim.Adam(model.parameters()))

    for found in live(drive, 2):
        assert megabytes(found.highest)["parameters"] == LAYERS / 2 + 1
        assert megabytes(found.highest)["gradients"] == LAYERS / 2


def test_of_distributed_tensors_each_rank_has_its_own():
    def drive():
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import (
            ColwiseParallel,
            RowwiseParallel,
            parallelize_module,
        )

        plan = {str(i): RowwiseParallel() if i % 2 else ColwiseParallel() for i in range(LAYERS)}
        model = parallelize_module(network(), init_device_mesh("cpu", (2,)), plan)
        train(model, torch.optim.Adam(model.parameters()))

    for found in live(drive, 2):
        assert megabytes(found.at_peak)["parameters"] == 4
        # Of four pairs of layers half of what lies between the two, and the whole of the sum
        assert megabytes(found.at_peak)["activations"] == 4 * (1 + 2)
        assert megabytes(found.highest)["gradients"] == 4
        assert megabytes(found.highest)["optimizer states"] == 8


def test_a_compiled_model_trains():
    def drive():
        model = network()
        train(torch.compile(model, backend="aot_eager"), torch.optim.SGD(model.parameters(), 0.1))

    (found,) = live(drive)
    assert megabytes(found.highest)["parameters"] == 8


def test_a_rank_that_is_killed_has_left_it():
    def drive():
        model = network()
        os.kill(os.getpid(), signal.SIGKILL)
        return model

    evidence = launch(drive, 1, live=True)
    assert evidence.diagnosis.kind == "killed"
    assert megabytes(evidence.ranks[0].live.at_peak)["parameters"] == 8
