"""The layers of networks whose scaling was published, as data: what a step computes, sends, holds.

From these the predictor knows when backward has the gradients of which layer, and how many bytes
they are. Conventions:

- A layer is a convolution, a linear layer, or a transformer's attention or feed-forward part, with
  the normalisation that follows (or begins) it. Layers are in the order of forward.
- `flop` is forward's, for one sample, a multiply and an add counted as two. Matrix products and
  convolutions are counted; normalisation, pooling and activation functions are not (in ResNet-50
  they are under one part in a hundred).
- Bytes are of float32. `parameter_bytes` counts what is trained, which is what an all-reduce sends.
  `activation_bytes` is the output of the layer's products for one sample, which is about what
  backward needs again. What a framework keeps besides is not in it.

Shapes are those of the papers. Where implementations differ, it is torchvision's choice, because
its counts of parameters and operations are published and can be tested against: AlexNet is that of
Krizhevsky 2014 (arXiv:1404.5997), a ResNet halves the image in the 3×3 convolution of a block.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from hpml.errors import UserError
from hpml.models import ResidualNetwork

FLOAT32 = 4  # bytes


@dataclass(frozen=True)
class Layer:
    """One layer: forward's FLOP and bytes of activations for one sample, bytes of parameters."""

    name: str
    flop: float
    parameter_bytes: int
    activation_bytes: int


@dataclass(frozen=True)
class Model:
    """A network, its layers in the order of forward. Backward has their gradients in reverse."""

    name: str
    layers: tuple[Layer, ...]

    @property
    def flop(self) -> float:
        """FLOP of forward for one sample. Backward takes about twice as many."""
        return sum(layer.flop for layer in self.layers)

    @property
    def parameters(self) -> int:
        return self.parameter_bytes // FLOAT32

    @property
    def parameter_bytes(self) -> int:
        """Bytes of parameters in float32, and so of all gradients."""
        return sum(layer.parameter_bytes for layer in self.layers)

    @property
    def activation_bytes(self) -> int:
        return sum(layer.activation_bytes for layer in self.layers)


@cache
def model(name: str) -> Model:
    """The model of this name, one of `MODELS`. Raises UserError, with all names, otherwise."""
    if name not in MODELS:
        raise UserError(f"no layers of a model {name!r}: there are {', '.join(MODELS)}")
    return Model(name, tuple(MODELS[name]()))


def alexnet() -> Iterator[Layer]:
    """Krizhevsky 2014, One weird trick for parallelizing convolutional neural networks
    (arXiv:1404.5997), in one column. Images are 224×224."""
    yield _convolution("conv1", 3, 64, 55, "11x11", bias=True)
    yield _convolution("conv2", 64, 192, 27, "5x5", bias=True)
    yield _convolution("conv3", 192, 384, 13, bias=True)
    yield _convolution("conv4", 384, 256, 13, bias=True)
    yield _convolution("conv5", 256, 256, 13, bias=True)
    yield _linear("fc6", 256 * 6 * 6, 4096)
    yield _linear("fc7", 4096, 4096)
    yield _linear("fc8", 4096, 1000)


def vgg16() -> Iterator[Layer]:
    """Simonyan and Zisserman 2015 (arXiv:1409.1556), table 1, column D. Images are 224×224."""
    inputs, size = 3, 224
    stages = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    for stage, (width, convolutions) in enumerate(stages, start=1):
        for index in range(1, convolutions + 1):
            yield _convolution(f"conv{stage}_{index}", inputs, width, size, bias=True)
            inputs = width
        size //= 2
    yield _linear("fc6", inputs * size * size, 4096)
    yield _linear("fc7", 4096, 4096)
    yield _linear("fc8", 4096, 1000)


def resnet(blocks: Sequence[int]) -> Iterator[Layer]:
    """He et al. 2016, Deep residual learning for image recognition (arXiv:1512.03385), table 1:
    bottleneck blocks, `blocks` of them in each of four stages. Images are 224×224."""
    yield _convolution("conv1", 3, 64, 112, "7x7")
    inputs, size = 64, 56
    for stage, (width, count) in enumerate(zip((64, 128, 256, 512), blocks, strict=True), start=2):
        for index in range(1, count + 1):
            name = f"conv{stage}_{index}"
            after = size // 2 if stage > 2 and index == 1 else size
            yield _convolution(f"{name}/1", inputs, width, size, "1x1")
            yield _convolution(f"{name}/2", width, width, after, "3x3")
            yield _convolution(f"{name}/3", width, 4 * width, after, "1x1")
            if index == 1:
                yield _convolution(f"{name}/shortcut", inputs, 4 * width, after, "1x1")
            inputs, size = 4 * width, after
    yield _linear("fc", inputs, 1000)


def inception_v3() -> Iterator[Layer]:
    """Szegedy et al. 2016, Rethinking the Inception architecture (arXiv:1512.00567), table 1 and
    figures 5 to 7 and 10, with the auxiliary classifier of section 4. Images are 299×299.

    In `_branches`' notation a module is its branches, each a chain of kernel:channels.
    """
    yield _convolution("conv1", 3, 32, 149)
    yield _convolution("conv2", 32, 32, 147)
    yield _convolution("conv3", 32, 64, 147)
    yield _convolution("conv4", 64, 80, 73, "1x1")
    yield _convolution("conv5", 80, 192, 71)
    for index, (inputs, pooled) in enumerate(((192, 32), (256, 64), (288, 64)), start=1):
        module = f"1x1:64 | 1x1:48 5x5:64 | 1x1:64 3x3:96 3x3:96 | 1x1:{pooled}"
        yield from _branches(f"mixed5_{index}", inputs, 35, module)
    yield from _branches("mixed6_1", 288, 35, "3x3:384/2 | 1x1:64 3x3:96 3x3:96/2")
    for index, c in enumerate((128, 160, 160, 192), start=2):
        short, long = f"1x1:{c} 1x7:{c} 7x1:192", f"1x1:{c} 7x1:{c} 1x7:{c} 7x1:{c} 1x7:192"
        yield from _branches(f"mixed6_{index}", 768, 17, f"1x1:192 | {short} | {long} | 1x1:192")
    yield _convolution("auxiliary/1", 768, 128, 5, "1x1")
    yield _convolution("auxiliary/2", 128, 768, 1, "5x5")
    yield _linear("auxiliary/fc", 768, 1000)
    halve = "1x1:192 3x3:320/2 | 1x1:192 1x7:192 7x1:192 3x3:192/2"
    yield from _branches("mixed7_1", 768, 17, halve)
    for index, inputs in enumerate((1280, 2048), start=2):
        fork = "1x3:384+3x1:384"  # both read what the one before them made
        module = f"1x1:320 | 1x1:384 {fork} | 1x1:448 3x3:384 {fork} | 1x1:192"
        yield from _branches(f"mixed7_{index}", inputs, 8, module)
    yield _linear("fc", 2048, 1000)


def transformer(
    blocks: int,
    width: int,
    heads: int,
    context: int,
    vocabulary: int,
    *,
    positions: int | None = None,
    predicted: int | None = None,
) -> Iterator[Layer]:
    """A decoder like GPT-2 (Radford et al. 2019); a sample is a sequence of `context` tokens.

    A block multiplies by 12·width² weights, and its attention takes 4·context²·width FLOP: all
    scores are counted, also those that the mask hides (as Narayanan et al. 2021 do,
    arXiv:2104.04473, appendix). The embedding's matrix is the output layer's as well. Backward has
    its whole gradient only at the end, so its bytes are the embedding's.

    `positions` have an embedding and `predicted` tokens go through the output layer, if these are
    not as many as the context has tokens.
    """
    positions = context if positions is None else positions
    predicted = context if predicted is None else predicted
    tokens = context * width  # numbers in one activation
    norm = 2 * width
    yield _layer("embedding", 0, (vocabulary + positions) * width, tokens)
    for index in range(1, blocks + 1):
        products = 2 * tokens * 4 * width + 4 * context * tokens
        held = 5 * tokens + heads * context**2  # query, key, value, scores, heads' sum, output
        yield _layer(f"block{index}/attention", products, 4 * width**2 + 4 * width + norm, held)
        weights, biases = 8 * width**2, 5 * width
        products = 2 * context * weights
        yield _layer(f"block{index}/feed_forward", products, weights + biases + norm, 5 * tokens)
    yield _layer("norm", 0, norm, 0)
    yield _layer("output", 2 * predicted * width * vocabulary, 0, predicted * vocabulary)


def bert_base() -> Iterator[Layer]:
    """Devlin et al. 2019 (arXiv:1810.04805), BERT base, without the layers for two sentences.

    A sample has 128 tokens, of which 20 are predicted, as in NVIDIA's DeepLearningExamples.
    """
    yield from transformer(12, 768, 12, 128, 30522, positions=512, predicted=20)


def bert_large(context: int, predicted: int) -> Iterator[Layer]:
    """Devlin et al. 2019, BERT large, likewise. NVIDIA predicts 20 of 128 tokens, or 80 of 512."""
    yield from transformer(24, 1024, 16, context, 30522, positions=512, predicted=predicted)


def module_layers(module: nn.Module, sample: Tensor) -> tuple[Layer, ...]:
    """The layers of a network of ours, from its modules, in the order in which it calls them.

    `sample` is a batch of one. Modules with weights of their own are layers; of the others nothing
    is counted. Parameters that are not trained are not sent, and have no bytes here.
    """
    names = {one: name for name, one in module.named_modules()}
    layers: list[Layer] = []

    def record(one: Any, _: object, output: Tensor) -> None:
        trained = sum(p.numel() for p in one.parameters(recurse=False) if p.requires_grad)
        products = isinstance(one, nn.Conv2d | nn.Linear)
        # Each number of the output is one product of a row of weights: 2 FLOP for each weight.
        flop = 2 * output.numel() * one.weight[0].numel() if products else 0
        layers.append(_layer(names[one], flop, trained, output.numel() if products else 0))

    weighted = [one for one in module.modules() if any(True for _ in one.parameters(recurse=False))]
    hooks = [one.register_forward_hook(record) for one in weighted]
    training = module.training
    try:
        with torch.no_grad():
            module.eval()(sample)  # running statistics stay as they are
    finally:
        module.train(training)
        for hook in hooks:
            hook.remove()
    return tuple(layers)


def course_network() -> Iterator[Layer]:
    """The workshop's own network (`hpml.models.ResidualNetwork`). Images are 32×32."""
    yield from module_layers(ResidualNetwork(), torch.zeros(1, 3, 32, 32))


MODELS: Mapping[str, Callable[[], Iterator[Layer]]] = {
    "alexnet": alexnet,
    "vgg16": vgg16,
    "resnet50": lambda: resnet((3, 4, 6, 3)),
    "resnet101": lambda: resnet((3, 4, 23, 3)),
    "resnet152": lambda: resnet((3, 8, 36, 3)),
    "inception_v3": inception_v3,
    "bert_base": bert_base,
    "bert_large": lambda: bert_large(128, 20),
    "bert_large_512": lambda: bert_large(512, 80),
    "gpt2": lambda: transformer(12, 768, 12, 1024, 50257),
    # MosaicML's decoders: llm-foundry, scripts/train/yamls/pretrain
    "mpt_125m": lambda: transformer(12, 768, 12, 2048, 50368),
    "mpt_350m": lambda: transformer(24, 1024, 16, 2048, 50368),
    "mpt_760m": lambda: transformer(24, 1536, 12, 2048, 50368),
    "mpt_1b": lambda: transformer(24, 2048, 16, 2048, 50368),
    "mpt_3b": lambda: transformer(32, 2560, 20, 2048, 50368),
    "course": course_network,
}


def _layer(name: str, flop: float, parameters: int, activations: int) -> Layer:
    """A layer from counts of numbers."""
    return Layer(name, float(flop), FLOAT32 * parameters, FLOAT32 * activations)


def _convolution(
    name: str, inputs: int, outputs: int, size: int, kernel: str = "3x3", *, bias: bool = False
) -> Layer:
    """`size` is the output's height and width. Without a bias, batch normalisation follows, with
    a scale and a shift for each channel."""
    height, width = map(int, kernel.split("x"))
    weights = height * width * inputs * outputs
    area = size * size
    return _layer(name, 2 * weights * area, weights + (1 if bias else 2) * outputs, outputs * area)


def _linear(name: str, inputs: int, outputs: int) -> Layer:
    return _layer(name, 2 * inputs * outputs, inputs * outputs + outputs, outputs)


def _branches(name: str, inputs: int, size: int, module: str) -> Iterator[Layer]:
    """The convolutions of an Inception module, branch after branch.

    "1x1:48 5x5:64 | 3x3:96/2": two branches; "/2" halves the image, without padding; in
    "1x3:384+3x1:384" both have the same input.
    """
    for branch, chain in enumerate(module.split("|"), start=1):
        channels, side = inputs, size
        for step, fork in enumerate(chain.split(), start=1):
            parts = [
                re.fullmatch(r"(\d+x\d+):(\d+)(/2)?", part).groups() for part in fork.split("+")
            ]
            for kernel, width, halved in parts:
                side = (side - 3) // 2 + 1 if halved else side
                label = f"{name}/{branch}.{step} {kernel}"
                yield _convolution(label, channels, int(width), side, kernel)
            channels = sum(int(width) for _, width, _ in parts)
