"""A compiled network learns what the plain one learns."""

import functools

import pytest
import torch

from hpml.errors import UserError
from hpml.train import Run, requests
from hpml.train.compiled import compiled

from .test_run import CPU, small_config, small_data


def test_compiled_a_training_is_the_same(monkeypatch):
    """Captured as for a compiler, and then run as it is: a compiler takes minutes."""
    monkeypatch.setenv("CXX", "true")
    plain = Run(small_config(epochs=1), small_data(), CPU).train(requests.Requests())
    calls = []

    def backend(graph, inputs):
        calls.append(len(graph.graph.nodes))
        return graph.forward

    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    torch._dynamo.reset()
    other = Run(small_config(epochs=1, compile=True), small_data(), CPU).train(requests.Requests())
    torch._dynamo.reset()
    assert calls
    assert other.epochs[0].train_loss == pytest.approx(plain.epochs[0].train_loss, rel=1e-4)
    assert other.epochs[0].test_loss == pytest.approx(plain.epochs[0].test_loss, rel=1e-3)


def test_without_a_compiler_it_is_refused_on_a_processor_and_not_on_a_gpu(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match="--compile: no-such-compiler is not installed"):
        compiled(torch.nn.Linear(1, 1), CPU)
    compiled(torch.nn.Linear(1, 1), torch.device("cuda"))


@pytest.mark.parametrize(("mib", "cut"), [(0, False), (1, True), (25, True)])
def test_of_buckets_that_torch_would_not_cut_at_the_graph_is_left_whole(monkeypatch, mib, cut):
    """With a smaller first bucket its DDPOptimizer raises AssertionError."""
    from torch._dynamo import config

    monkeypatch.setattr(config, "optimize_ddp", True)
    network = torch.nn.Linear(1, 1)
    network.bucket_bytes_cap = mib * 2**20
    compiled(network, torch.device("cuda"))
    assert config.optimize_ddp is cut
