"""Layers as data: their totals are the published counts, and gradients are of the right layers."""

import pytest
import torch
from torch import nn

from hpml.errors import UserError
from hpml.models import ResidualNetwork
from hpml.modules.m06_torch_distributed.lecture.buckets import gradient_bytes
from hpml.predict.model_layers import FLOAT32, MODELS, Layer, model, module_layers

# Parameters, and 10^9 multiply-adds of forward for one image, as torchvision prints them with its
# weights (docs.pytorch.org/vision/stable/models, `num_params` and GFLOPS; `_ops` in
# github.com/pytorch/vision/tree/main/torchvision/models). Its Inception v3 has the auxiliary
# classifier in the first of these, not in the second.
TORCHVISION = {
    "alexnet": (61_100_840, 0.714),
    "vgg16": (138_357_544, 15.47),
    "resnet50": (25_557_032, 4.089),
    "resnet101": (44_549_160, 7.801),
    "resnet152": (60_192_808, 11.514),
    "inception_v3": (27_161_264, 5.713),
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_totals_are_the_published_counts(name):
    parameters, billions = TORCHVISION[name]
    assert model(name).parameters == parameters
    flop = sum(one.flop for one in model(name).layers if not one.name.startswith("auxiliary"))
    assert flop / 2e9 == pytest.approx(billions, abs=6e-4)


def test_without_its_auxiliary_classifier_inception_has_24_million_parameters():
    # Keras' table of applications: 23.9 M (keras.io/api/applications, InceptionV3).
    main = [one for one in model("inception_v3").layers if not one.name.startswith("auxiliary")]
    assert sum(one.parameter_bytes for one in main) // FLOAT32 == 23_834_568


def test_the_transformer_has_the_124_million_parameters_of_gpt_2():
    # Radford et al. 2019's smallest: 124M in huggingface.co/openai-community/gpt2.
    assert model("gpt2").parameters == 124_439_808
    embedding, *_, output = model("gpt2").layers
    assert embedding.parameter_bytes == FLOAT32 * (50_257 + 1_024) * 768
    assert output.parameter_bytes == 0  # the embedding's matrix once more
    assert output.flop > 0


def test_bert_base_has_about_110_million_parameters():
    # Devlin et al. 2019, section 3: 110M, with the layers for two sentences, which are left out.
    assert model("bert_base").parameters == pytest.approx(110e6, rel=0.015)
    assert model("bert_base").layers[-1].flop == 2 * 20 * 768 * 30_522


def test_the_transformers_of_published_tables_have_their_parameters():
    # llm-foundry, scripts/train/benchmarking/README.md, column NumParams; Devlin et al. 2019: 340M.
    counted = {name[4:]: model(name).parameters for name in MODELS if name.startswith("mpt_")}
    assert counted == {
        "125m": 125_311_488,
        "350m": 355_985_408,
        "760m": 760_470_528,
        "1b": 1_315_950_592,
        "3b": 2_651_837_440,
    }
    assert model("bert_large").parameters == pytest.approx(340e6, rel=0.02)
    assert model("bert_large_512").flop > 4 * model("bert_large").flop


@pytest.mark.parametrize("name", MODELS)
def test_layers_are_counted_and_have_names_of_their_own(name):
    layers = model(name).layers
    assert len({one.name for one in layers}) == len(layers)
    for one in layers:
        assert min(one.flop, one.parameter_bytes, one.activation_bytes) >= 0
    assert model(name).flop == sum(one.flop for one in layers)
    assert model(name).activation_bytes == sum(one.activation_bytes for one in layers)


def test_vgg_has_its_flop_first_and_its_parameters_last():
    layers = model("vgg16").layers
    last_three = sum(one.parameter_bytes for one in layers[-3:]) / model("vgg16").parameter_bytes
    assert last_three > 0.89
    assert sum(one.flop for one in layers[-3:]) / model("vgg16").flop < 0.01


def test_the_courses_network_sends_what_it_trains():
    layers = model("course").layers
    assert sum(one.parameter_bytes for one in layers) == sum(
        gradient_bytes(ResidualNetwork()).values()
    )
    assert layers[0].name == "stem"
    assert layers[0].parameter_bytes == 0  # whitening is not trained
    assert layers[-1].name == "head"


def test_a_modules_layers_are_counted_by_hand():
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 5)
    )
    before = network[1].running_mean.clone()
    layers = module_layers(network, torch.zeros(1, 3, 4, 4))
    assert layers == (
        Layer("0", 2 * 27 * 8 * 16, 4 * (27 * 8 + 8), 4 * 8 * 16),
        Layer("1", 0.0, 4 * 16, 0),
        Layer("4", 2 * 128 * 5, 4 * (128 * 5 + 5), 4 * 5),
    )
    assert network.training
    assert torch.equal(network[1].running_mean, before)


def test_an_unknown_model_is_named_with_all_others():
    with pytest.raises(UserError, match="no layers of a model 'resnet18': there are alexnet, vgg"):
        model("resnet18")
