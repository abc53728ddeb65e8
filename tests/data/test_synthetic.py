"""The generated images: repeatable, easy for a network, hard for a linear model."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from hpml.data import normalize
from hpml.data.synthetic import SHAPES, records


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


def pixels_and_labels(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    made = records(np.random.default_rng(seed), count)
    images = torch.from_numpy(made[:, 1:].reshape(-1, 3, 32, 32))
    return normalize(images, channels_last=True), torch.from_numpy(made[:, 0].astype(np.int64))


@pytest.fixture(scope="module")
def train():
    return pixels_and_labels(1, 5000)


@pytest.fixture(scope="module")
def test():
    return pixels_and_labels(2, 2000)


def accuracy(model: nn.Module, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return (model(pixels).argmax(1) == labels).float().mean().item()


def convolution(inputs: int, outputs: int) -> list[nn.Module]:
    block = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return [block, nn.BatchNorm2d(outputs), nn.ReLU()]


def test_a_small_convolutional_network_passes_90_percent(train, test):
    model = nn.Sequential(
        *convolution(3, 16),
        nn.MaxPool2d(2),
        *convolution(16, 32),
        nn.MaxPool2d(2),
        *convolution(32, 64),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    ).to(memory_format=torch.channels_last)
    steps = 4 * 50
    optimizer = torch.optim.SGD(model.parameters(), 0.1, 0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=steps)
    pixels, labels = train
    for _ in range(4):
        for index in torch.randperm(len(labels)).split(100):
            optimizer.zero_grad()
            cross_entropy(model(pixels[index]), labels[index]).backward()
            optimizer.step()
            schedule.step()
    assert accuracy(model, *test) > 0.93


def test_a_linear_classifier_stays_under_60_percent(train, test):
    pixels, labels = (part[:3000] for part in train)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
    weight = nn.init.zeros_(model[1].weight)
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=100, tolerance_grad=1e-4, line_search_fn="strong_wolfe"
    )

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = cross_entropy(model(pixels), labels) + 0.05 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)  # every step sees all images
    loss()
    assert weight.grad.norm() < 0.01, "the linear classifier is not trained to its end"
    assert accuracy(model, pixels, labels) > 0.2
    assert accuracy(model, *test) < 0.6


def test_the_same_seed_gives_the_same_images():
    made = records(np.random.default_rng(0), 500)
    assert np.array_equal(made, records(np.random.default_rng(0), 500))
    assert not np.array_equal(made, records(np.random.default_rng(1), 500))
    assert np.bincount(made[:, 0]).tolist() == [50] * 10


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_looks_the_same_in_a_mirror(shape):
    axis = np.linspace(-1.5, 1.5, 61)
    y, x = axis[:, None], axis[None, :]
    np.testing.assert_allclose(SHAPES[shape](y, x), SHAPES[shape](y, -x), atol=1e-12)


def test_classes_must_share_the_images_evenly():
    with pytest.raises(ValueError, match="15 images do not divide evenly"):
        records(np.random.default_rng(0), 15)
