"""The course's network as a file of ONNX: counted, run, refused."""

import dataclasses

import numpy as np
import pytest
import torch

from hpml.errors import UserError
from hpml.models import ResidualNetwork
from hpml.modules.m04_frameworks.lecture import onnx_export
from hpml.modules.m04_frameworks.lecture.onnx_export import Answers

pytestmark = pytest.mark.skipif(bool(onnx_export.missing()), reason=onnx_export.missing())


def export(model, *given, **options):
    with onnx_export.quiet():
        return torch.onnx.export(model, given, dynamo=True, **options).model_proto


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    model = ResidualNetwork(widths=(8, 8))
    optimizer = torch.optim.SGD((p for p in model.parameters() if p.requires_grad), 0.1, 0.9)
    for _ in range(2):
        model(torch.randn(8, 3, 32, 32)).square().sum().backward()
        optimizer.step()
    return model.eval(), optimizer


@pytest.fixture(scope="module")
def file(network):
    shapes = ({0: torch.export.Dim("batch")},)
    names = {"input_names": ["images"], "output_names": ["logits"]}
    return export(network[0], torch.zeros(2, 3, 32, 32), dynamic_shapes=shapes, **names)


def test_the_exporter_is_silent_and_says_again_what_it_did_before(network, capfd):
    export(network[0], torch.zeros(2, 3, 32, 32))
    assert capfd.readouterr() == ("", "")
    print("heard")
    assert capfd.readouterr().out == "heard\n"


def test_operators_are_counted_the_commonest_first(file):
    found = onnx_export.operators(file)
    assert found["Conv"] == 5
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_a_norm_behind_a_convolution_is_in_its_weights(network, file):
    found = onnx_export.folded(network[0], file)
    assert found == (True, 5, 4, 2, 2)


def test_weights_of_another_network_are_not_taken_for_folded_ones(network, file):
    torch.manual_seed(1)
    other = ResidualNetwork(widths=(8, 8)).eval()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    assert onnx_export.folded(other, file) == (False, 5, 4, 2, 0)


def test_the_first_nodes_lead_from_the_images_to_the_operator(file):
    nodes = onnx_export.first_nodes(file, "Add")
    assert nodes[0].label == "images\nbatch × 3 × 32 × 32"
    assert nodes[1].label == "Conv\nW: 24 × 3 × 2 × 2"
    assert [node.kind for node in nodes].count("output") == 1
    assert nodes[-1].label == "Add"
    names = {node.name for node in nodes}
    assert all(set(node.inputs) <= names for node in nodes)


def test_convolutions_that_hold_a_norm_are_marked(file, monkeypatch):
    given = {}
    monkeypatch.setattr(onnx_export, "graph_picture", lambda nodes, **more: given.update(more))
    onnx_export.first_picture(file, "Add", "a title")
    assert given["title"] == "a title"
    assert len(given["marks"]) == 1


def test_every_batch_size_gets_the_same_answers(network, file):
    images = torch.randn(9, 3, 32, 32)
    found = onnx_export.answers(network[0], onnx_export.session(file), images, [1, 3, 5])
    assert found.nearly_equal
    assert found.same_class == 9


def test_batches_must_add_up(network, file):
    with pytest.raises(ValueError, match="are 2 images, not 3"):
        onnx_export.answers(network[0], None, torch.zeros(3, 3, 32, 32), [2])


def test_another_class_or_other_logits_are_seen():
    equal = Answers(np.eye(3), np.eye(3))
    assert equal.same_bits == 1
    assert not equal.nearly_equal  # the sentence is about a difference
    same = dataclasses.replace(equal, runtime=np.eye(3) + 1e-6)
    assert same.nearly_equal
    swapped = dataclasses.replace(same, runtime=np.eye(3)[::-1])
    assert (swapped.nearly_equal, swapped.same_class) == (False, 1)
    assert not dataclasses.replace(same, runtime=np.eye(3) * 1.01).nearly_equal


class OnValues(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


def test_a_refusal_names_the_line():
    with pytest.raises(torch.onnx.OnnxExporterError) as refused:
        export(OnValues().eval(), torch.ones(2, 3))
    assert onnx_export.refusal(refused.value) == (
        "Could not guard on data-dependent expression",
        "if x.sum() > 0:",
    )


def test_a_refusal_for_another_reason_is_its_first_line():
    assert onnx_export.refusal(ValueError("no such thing\nmore")) == ("no such thing", "")
    assert onnx_export.refusal(ValueError()) == ("ValueError", "")


class Both(torch.nn.Module):
    def forward(self, x, number):
        if number > 0:
            x = x.relu()
        return torch.cond(x.mean() > 1, lambda x: x / 2, lambda x: x.clone(), (x,))


class OnNumber(torch.nn.Module):
    def forward(self, x, number):
        return x.relu() if number > 0 else x * 2


def test_a_branch_on_values_travels_and_one_on_a_number_does_not():
    file = export(Both().eval(), torch.ones(2, 3), 1)
    assert onnx_export.branches(Both(), file, number=1, other=-1) == (True, 1, True, False)


def test_without_an_if_it_is_not_held():
    file = export(OnNumber().eval(), torch.ones(2, 3), 1)
    assert onnx_export.branches(OnNumber(), file, number=1, other=-1) == (False, 0, True, False)


def test_momentum_and_folded_statistics_are_not_in_the_file(network, file):
    model, optimizer = network
    learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
    # mean and variance of 8 channels, of 2 norms
    assert onnx_export.left_out(model, optimizer, file) == (True, learned, 32, [])


def test_an_optimizer_without_state_loses_nothing(network, file):
    fresh = torch.optim.SGD(network[0].parameters(), 0.1)
    assert not onnx_export.left_out(network[0], fresh, file).held


def test_what_is_not_installed_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setattr(
        onnx_export.importlib.util, "find_spec", lambda name: name != "onnx" or None
    )
    assert onnx_export.missing() == "onnx not installed: pip install onnx"
    with pytest.raises(UserError, match="pip install onnx"), onnx_export.quiet():
        pass


def test_the_brief_training_changes_every_norm():
    model, optimizer = onnx_export.briefly_trained(steps=1, batch=4)
    assert not model.training
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert all(norm.running_mean.abs().sum() > 0 for norm in norms)
    assert optimizer.state
    assert onnx_export.unseen_images(5).shape == (5, 3, 32, 32)
