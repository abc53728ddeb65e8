"""The course's network as a file of ONNX: what is in it, what is not, and does it answer the same?

ONNX is a computation graph of standard operators with its weights (ONNX IR specification,
https://github.com/onnx/onnx/blob/main/docs/IR.md). The export itself, `torch.onnx.export`, is in
the lecture.
"""

import contextlib
import importlib.util
import io
import logging
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from hpml.data import batches, load, normalize
from hpml.errors import UserError
from hpml.models import ResidualNetwork
from hpml.models.residual import ConvolveNormalise
from hpml.modules.m04_frameworks.lecture.graph_picture import Node, graph_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from onnx import ModelProto, NodeProto
    from onnxruntime import InferenceSession

NEEDED = ("onnx", "onnxscript", "onnxruntime")
CLOSE = 1e-4  # how far apart logits may be, relative to the largest one
LOSSES = {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}  # of ONNX's operators
IMAGES = "images"  # the name of the network's input in the file


def missing() -> str:
    """What exporting and running need and this machine lacks; empty if nothing."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not lacking:
        return ""
    return f"{', '.join(lacking)} not installed: pip install {' '.join(lacking)}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What the exporter prints about itself is not shown. Raises UserError where it is missing."""
    if lacking := missing():
        raise UserError(f"ONNX: {lacking}")
    log = logging.getLogger("torch")
    level = log.level
    nowhere = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log.setLevel(logging.CRITICAL)
        try:
            with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
                yield
        finally:
            log.setLevel(level)


def briefly_trained(
    steps: int = 6, batch: int = 64
) -> tuple[ResidualNetwork, torch.optim.Optimizer]:
    """The course's network after a few steps on the course's images, ready to predict; and what
    trained it: SGD with momentum.

    After them, its batch normalisations have statistics that do something.
    """
    torch.manual_seed(0)
    network = ResidualNetwork(widths=(32, 64, 64))
    optimizer = torch.optim.SGD((p for p in network.parameters() if p.requires_grad), 0.1, 0.9)
    order = np.arange(steps * batch)
    for images, labels in batches(load().train, order, batch):
        optimizer.zero_grad()
        cross_entropy(network(normalize(images)), labels).backward()
        optimizer.step()
    return network.eval(), optimizer


def unseen_images(number: int = 500) -> Tensor:
    """The first test images of the course's data, normalised: float32 [number, 3, 32, 32]."""
    ((images, _),) = batches(load().test, np.arange(number), number)
    return normalize(images)


def session(file: "ModelProto", threads: int = 1) -> "InferenceSession":
    """ONNX Runtime, ready to run `file` on the processor with so many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    return onnxruntime.InferenceSession(
        file.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def operators(file: "ModelProto") -> dict[str, int]:
    """How many nodes of each operator the graph has, the commonest first."""
    return dict(Counter(node.op_type for node in file.graph.node).most_common())


def first_nodes(file: "ModelProto", until: str) -> tuple[Node, ...]:
    """The graph from its input to the first node of operator `until`, as boxes to draw.

    Weights are written into the box that uses them, with their shapes.
    """
    shapes = {tensor.name: tuple(tensor.dims) for tensor in file.graph.initializer}
    size = file.graph.input[0].type.tensor_type.shape.dim
    label = f"{IMAGES}\n" + " × ".join(one.dim_param or str(one.dim_value) for one in size)
    nodes = [Node(IMAGES, label, (), "input")]
    for node in file.graph.node:
        roles: dict[tuple[int, ...], list[str]] = {}
        for place, name in enumerate(node.input):
            if name in shapes:
                roles.setdefault(shapes[name], []).append(_role(node, place))
        weights = [f"{', '.join(r)}: {' × '.join(map(str, size))}" for size, r in roles.items()]
        inputs = tuple(name for name in node.input if name and name not in shapes)
        last = node.op_type == until
        text = "\n".join([node.op_type, *weights])
        nodes.append(Node(node.output[0], text, inputs, "output" if last else "op"))
        if last:
            break
    return tuple(nodes)


def first_picture(file: "ModelProto", until: str, title: str) -> "Figure":
    """`first_nodes`, drawn; convolutions that hold a batch normalisation are marked.

    The course's convolutions have no bias of their own: one with a bias got it from there.
    """
    inside = {
        node.output[0]: "a batch normalisation is in its weights"
        for node in file.graph.node
        if node.op_type == "Conv" and len(node.input) == 3
    }
    nodes = first_nodes(file, until)
    marks = {node.name: inside[node.name] for node in nodes if node.name in inside}
    return graph_picture(nodes, title=title, marks=marks)


def _role(node: "NodeProto", place: int) -> str:
    """What the input at `place` is called in the operator's specification."""
    import onnx

    inputs = onnx.defs.get_schema(node.op_type).inputs
    return inputs[place].name


class Folded(NamedTuple):
    """How many convolutions and batch normalisations a network has, how many of the latter are
    left in the file, and how many are in weights. Held if every one that follows a convolution is
    in its weights, and the others follow a pooling."""

    held: bool
    convolutions: int
    norms: int
    left: int
    scaled: int


def folded(network: nn.Module, file: "ModelProto") -> Folded:
    """Which batch normalisations are left, and where the others are.

    One that follows a convolution is in the convolution's weights: w · γ / √(variance + ε).
    """
    producer = {name: node for node in file.graph.node for name in node.output}
    left = [node for node in file.graph.node if node.op_type == "BatchNormalization"]
    before = {producer[node.input[0]].op_type for node in left}
    pairs = _convolution_then_norm(network)
    weights = _weights(file)
    scaled = sum(_equal(weights.get(name), weight) for name, weight in pairs.items())
    norms = sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())
    convolutions = sum(isinstance(module, nn.Conv2d) for module in network.modules())
    held = scaled == len(pairs) == norms - len(left) > 0 and before == {"MaxPool"}
    return Folded(held, convolutions, norms, len(left), scaled)


def _convolution_then_norm(network: nn.Module) -> dict[str, np.ndarray]:
    """For each convolution whose output goes straight to a batch normalisation: both as one."""
    out = {}
    for name, module in network.named_modules():
        # Where it pools, the pooling is in between.
        if isinstance(module, ConvolveNormalise) and not module.pool:
            norm = module.norm
            scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
            weight = module.convolution.weight * scale[:, None, None, None]
            out[f"{name}.convolution.weight"] = weight.detach().numpy()
    return out


def _weights(file: "ModelProto") -> dict[str, np.ndarray]:
    from onnx import numpy_helper

    return {one.name: numpy_helper.to_array(one) for one in file.graph.initializer}


def _equal(found: np.ndarray | None, expected: np.ndarray) -> bool:
    same = found is not None and found.shape == expected.shape
    return same and bool(np.allclose(found, expected, rtol=1e-4, atol=1e-6))


@dataclass(frozen=True)
class Answers:
    """Logits [N, classes] of the same images by PyTorch and by ONNX Runtime."""

    torch: np.ndarray
    runtime: np.ndarray

    @property
    def difference(self) -> float:
        return float(np.abs(self.torch - self.runtime).max())

    @property
    def largest(self) -> float:
        return float(np.abs(self.torch).max())

    @property
    def same_class(self) -> int:
        """How many images get the same class."""
        return int((self.torch.argmax(1) == self.runtime.argmax(1)).sum())

    @property
    def same_bits(self) -> float:
        """The part of the logits that are equal."""
        return float((self.torch == self.runtime).mean())

    @property
    def nearly_equal(self) -> bool:
        """Whether all classes are the same, and some logits differ, by rounding."""
        close = 0 < self.difference < CLOSE * self.largest
        return self.same_class == len(self.torch) and close


def answers(
    network: nn.Module, running: "InferenceSession", images: Tensor, sizes: Sequence[int]
) -> Answers:
    """The network's logits, and ONNX Runtime's in batches of `sizes`, which add up to all images.

    Raises ValueError where they do not.
    """
    if sum(sizes) != len(images):
        raise ValueError(f"batches of {tuple(sizes)} are {sum(sizes)} images, not {len(images)}")
    with torch.inference_mode():
        expected = network(images).numpy()
    ends = np.cumsum([0, *sizes])
    found = [running.run(None, {IMAGES: images[a:b].numpy()})[0] for a, b in pairwise(ends)]
    return Answers(expected, np.concatenate(found))


def refusal(error: Exception) -> tuple[str, str]:
    """Why the exporter refused, in its own words, and the line of Python that it refused."""
    text = str(error)
    why = re.search(r"Could not guard on [a-z-]+ expression|Data-dependent [a-z ]+", text)
    line = re.findall(r'File ".*", line \d+, in forward\n +(.+)', text)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return (why[0] if why else first, line[-1].strip() if line else "")


class LeftOut(NamedTuple):
    """Numbers of the optimizer and of batch normalisations that are not in the file, and its
    operators for training. Held if there are such numbers and no such operators."""

    held: bool
    momentum: int
    statistics: int
    training: list[str]


def left_out(network: nn.Module, optimizer: torch.optim.Optimizer, file: "ModelProto") -> LeftOut:
    """How much of what training needs is not in the file."""
    names = {one.name for one in file.graph.initializer}
    statistics = sum(
        value.numel()
        for name, value in network.state_dict().items()
        if name.endswith(("running_mean", "running_var")) and name not in names
    )
    momentum = sum(
        value.numel()
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, Tensor)
    )
    training = sorted({node.op_type for node in file.graph.node} & LOSSES)
    held = statistics > 0 and momentum > 0 and not training
    return LeftOut(held, momentum, statistics, training)


class Branches(NamedTuple):
    """How many operators `If` there are, and whether the file answers as the network does with the
    number of the export, and with another one. Held if one `if` travelled, and one did not."""

    held: bool
    ifs: int
    same: bool
    same_with_other: bool


def branches(network: nn.Module, file: "ModelProto", number: int, other: int) -> Branches:
    """Which of a network's two `if`s are in the file.

    `network(x, number)` branches on `number` in Python, and on x by `torch.cond`; `file` was
    exported with `number`. It is tried on values for both branches, and beside the network with
    `number` and with `other`.
    """
    running = session(file)
    (given,) = (one.name for one in running.get_inputs())
    tried = [torch.full((2, 3), value) for value in (-1.0, 0.5, 2.0)]
    found = [torch.from_numpy(running.run(None, {given: x.numpy()})[0]) for x in tried]

    def same(argument: int) -> bool:
        with torch.inference_mode():
            expected = [network(x, argument) for x in tried]
        return all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))

    ifs, equal, also = operators(file).get("If", 0), same(number), same(other)
    return Branches(ifs == 1 and equal and not also, ifs, equal, also)
