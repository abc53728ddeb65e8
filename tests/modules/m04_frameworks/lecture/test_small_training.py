"""The small training is deterministic, and ranks are held to one process with all batches."""

import torch
from torch.nn.utils import vector_to_parameters

from hpml.modules.m04_frameworks.lecture.small_training import (
    BATCH,
    INPUTS,
    OUTPUTS,
    batch,
    in_one_process,
    loss_of,
    network,
    train,
    weights,
)


def test_batches_follow_from_rank_and_step():
    inputs, targets = batch(0, 3)
    assert (inputs.shape, targets.shape) == ((BATCH, INPUTS), (BATCH, OUTPUTS))
    assert torch.equal(inputs, batch(0, 3)[0])
    assert not torch.equal(inputs, batch(1, 3)[0])
    assert not torch.equal(inputs, batch(0, 4)[0])


def test_a_training_in_two_parts_without_momentum_is_one_training():
    whole, parts = network(), network()
    sgd = [torch.optim.SGD(model.parameters(), 0.1) for model in (whole, parts)]
    train(whole, 0, 6, optimizer=sgd[0])
    train(parts, 0, 4, optimizer=sgd[1])
    train(parts, 0, 2, first=4, optimizer=sgd[1])
    assert torch.equal(weights(whole), weights(parts))


def test_one_rank_is_one_process():
    model = network()
    train(model, 0, 5)
    torch.testing.assert_close(weights(model), in_one_process(1, 5), rtol=0, atol=1e-14)
    assert (weights(model) - in_one_process(2, 5)).abs().max() > 1e-3


def test_training_lowers_the_loss_on_other_samples():
    assert loss_of(in_one_process(2, 60)) < loss_of(weights(network())) / 4


def test_weights_are_a_copy():
    model = network()
    vector = weights(model)
    vector_to_parameters(torch.zeros_like(vector), model.parameters())
    assert vector.abs().max() > 0
