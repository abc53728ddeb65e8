"""The transformer: shapes, sizes, the order of a block, and a gradient for every parameter."""

import pytest
import torch
from torch.nn import functional as F

from hpml.models import VisionTransformer
from hpml.models.vision_transformer import Attention, Block

SMALL = {"width": 16, "depth": 2, "heads": 4, "patch": 8}


def network(seed: int = 0, **options) -> VisionTransformer:
    torch.manual_seed(seed)
    return VisionTransformer(**(SMALL | options))


def parameter_count(width: int, depth: int, patch: int = 4, image: int = 32, classes: int = 10):
    embed = (3 * patch**2 + 1) * width + (image // patch) ** 2 * width
    attention = 4 * width**2 + 3 * width  # no bias of the keys
    mlp = 8 * width**2 + 5 * width
    return embed + depth * (attention + mlp + 4 * width) + 2 * width + (width + 1) * classes


@pytest.mark.parametrize(
    ("name", "width", "depth", "millions"), [("tiny", 64, 4, 0.2), ("small", 192, 6, 2.7)]
)
def test_sizes_have_the_parameters_that_their_matrices_add_up_to(name, width, depth, millions):
    count = sum(p.numel() for p in VisionTransformer.of_size(name).parameters())
    assert count == parameter_count(width, depth)
    assert count / 1e6 == pytest.approx(millions, abs=0.05)


@pytest.mark.parametrize(("image", "patch"), [(32, 4), (32, 8), (24, 4)])
def test_images_become_tokens_and_tokens_logits(image, patch):
    model = network(image=image, patch=patch, classes=7)
    images = torch.randn(5, 3, image, image)
    assert model.embed(images).shape == (5, (image // patch) ** 2, 16)
    assert model.blocks[0](model.embed(images)).shape == (5, (image // patch) ** 2, 16)
    assert model(images).shape == (5, 7)


def test_a_token_is_the_pixels_of_one_patch():
    model = network()
    images = torch.zeros(1, 3, 32, 32)
    before = model.embed(images)
    images[0, :, 8:16, 24:32] = 1.0  # second row, fourth column of patches
    changed = (model.embed(images) != before).any(dim=2)[0]
    assert changed.nonzero().flatten().tolist() == [7]


def test_the_norm_comes_before_each_layer_and_the_way_past_them_stays_clear():
    torch.manual_seed(0)
    block, tokens = Block(16, 4), torch.randn(2, 5, 16)
    after = tokens + block.attention(block.norm1(tokens))
    expected = after + block.mlp(block.norm2(after))
    torch.testing.assert_close(block(tokens), expected)
    for layer in (block.attention.out, block.mlp.down):
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    assert torch.equal(block(tokens), tokens)


def test_attention_is_softmax_of_scores_over_tokens_in_each_head():
    torch.manual_seed(0)
    attention, tokens = Attention(8, 2).double(), torch.randn(3, 5, 8, dtype=torch.float64)
    heads = []
    for head in (slice(0, 4), slice(4, 8)):
        query, key, value = (
            layer(tokens)[..., head] for layer in (attention.query, attention.key, attention.value)
        )
        heads.append(F.softmax(query @ key.transpose(1, 2) / 2, dim=2) @ value)  # √4 = 2
    torch.testing.assert_close(attention(tokens), attention.out(torch.cat(heads, dim=2)))


def test_a_gradient_reaches_every_parameter():
    model = network()
    logits = model(torch.randn(4, 3, 32, 32))
    F.cross_entropy(logits, torch.arange(4)).backward()
    without = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert without == []


def test_a_seed_is_a_network_and_no_call_changes_it():
    one, same, another = network(0), network(0), network(1)
    images = torch.randn(2, 3, 32, 32)
    assert torch.equal(one(images), same(images))
    assert torch.equal(one(images), one.train()(images))
    assert not torch.equal(one(images), another(images))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 3}, "3 heads do not divide a width of 16"),
        ({"patch": 5}, "patches of 5 pixels do not divide images of 32"),
    ],
)
def test_what_does_not_divide_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        network(**options)
