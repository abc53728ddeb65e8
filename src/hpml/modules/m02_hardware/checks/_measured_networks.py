"""Exercise memory_budget: fresh networks as data, and what training each of them takes.

A network is data: its layers in words, of which both the answer's rank and the one that trains it
make modules. Functions here are sent to ranks by value.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

KINDS = ("weights", "gradients", "optimizer states", "activations")
CLASSES = 10
STEPS = 2

Network = dict[str, Any]  # name, layers, sample, dtype, batch, optimizer
Layer = list[Any]  # its class, its arguments, whether its parameters are trained


# ---- what is drawn


def networks(seed: int) -> list[Network]:
    """Three networks: of images, of float64, and one whose first layers are frozen. Each has
    another optimizer, and two sizes of memory: one that is less than its weights."""
    draw = random.Random(seed)
    optimizers = draw.sample(("sgd", "momentum", "adam"), 3)
    made = [of_images(draw), of_float64(draw), fine_tuned(draw)]
    for network, optimizer in zip(made, optimizers, strict=True):
        network["optimizer"] = optimizer
        network["memory"] = [draw.randint(4_000_000, 12_000_000), draw.randint(10_000, 40_000)]
    return made


def block(before: int, width: int, in_place: bool, trained: bool = True) -> Iterator[Layer]:
    """Convolution, batch normalisation, ReLU; shapes stay."""
    yield ["Conv2d", [before, width, 3, 1, 1], trained]
    yield ["BatchNorm2d", [width], trained]
    yield ["ReLU", [in_place], trained]


def of_images(draw: random.Random) -> Network:
    """Eight blocks, with a pooling behind the second and the fourth; in half of the blocks the
    ReLU is in place. Flatten comes behind a ReLU: both put out the same memory, which is kept."""
    side, width, before = draw.choice((16, 24, 32)), draw.randint(9, 14), 3
    in_place = draw.sample([True, False] * 4, 8)
    layers: list[Layer] = []
    for number in range(8):
        layers += block(before, width, in_place[number])
        before = width
        if number in (1, 3):
            layers.append(["MaxPool2d", [2], True])
            width += draw.randint(4, 8)
    features = before * (side // 4) ** 2
    layers += [["Flatten", [], True], ["Linear", [features, CLASSES], True]]
    batch = draw.randint(8, 12) * (32 // side)
    return network("the network of images", layers, [3, side, side], "float32", batch)


def of_float64(draw: random.Random) -> Network:
    """Nine layers, each narrower than the one before, with GELU or ReLU between them."""
    widths = [draw.randint(0, 6) + 132 - 10 * number for number in range(10)]
    gelus = draw.sample([True, False] * 5, 9)
    layers: list[Layer] = []
    for before, after, gelu in zip(widths, widths[1:], gelus, strict=False):
        layers.append(["Linear", [before, after], True])
        layers.append(["GELU", [], True] if gelu else ["ReLU", [draw.random() < 0.5], True])
    layers.append(["Linear", [widths[-1], CLASSES], True])
    return network("the network in float64", layers, [widths[0]], "float64", draw.randint(70, 140))


def fine_tuned(draw: random.Random) -> Network:
    """Two frozen blocks, then ten trained convolutions with GELU and three poolings."""
    side, width, before = draw.choice((16, 24)), draw.randint(8, 11), 3
    layers: list[Layer] = []
    for _ in range(2):
        layers += block(before, width, draw.random() < 0.5, trained=False)
        before = width
    for number in range(10):
        layers += [["Conv2d", [before, width, 3, 1, 1], True], ["GELU", [], True]]
        before = width
        if number in (2, 6, 9):
            layers.append(["MaxPool2d", [2], True])
            width += draw.randint(3, 6)
    layers += [["Flatten", [], True], ["Linear", [before * (side // 8) ** 2, CLASSES], True]]
    batch = draw.randint(6, 10) * (32 // side)
    return network("the network with frozen layers", layers, [3, side, side], "float32", batch)


def network(name: str, layers: list[Layer], sample: list[int], dtype: str, batch: int) -> Network:
    return {"name": name, "layers": layers, "sample": sample, "dtype": dtype, "batch": batch}


def build(network: Network, device: str) -> nn.Sequential:
    """The module, in training mode."""
    made = []
    for kind, arguments, trained in network["layers"]:
        layer = getattr(nn, kind)(*arguments).to(getattr(torch, network["dtype"]))
        made.append(layer.requires_grad_(trained))
    return nn.Sequential(*made).to(device)


# ---- what is measured, on a rank without the answer


def measure(inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each network: the allocator's peak at its batch and at twice its batch, and the bytes of
    each kind, with figures of what people count in place of them."""
    found = []
    for network in inputs["networks"]:
        made, peak = train(network, network["batch"])
        _, larger = train(network, 2 * network["batch"])
        found.append({"peak": peak, "peak of twice": larger, **made})
    return found


def train(network: Network, batch: int) -> tuple[dict[str, Any], int]:
    """Train two steps; returns the bytes that exist by kind, and the most bytes that PyTorch's
    allocator had handed out at one time."""
    from torch.autograd import profiler
    from torch.nn.functional import cross_entropy

    with profiler.profile(use_cpu=True, use_kineto=True, profile_memory=True) as log:
        model = build(network, "cpu")
        optimizer = make_optimizer(network["optimizer"], model)
        data = torch.randn(batch, *network["sample"], dtype=getattr(torch, network["dtype"]))
        labels = torch.randint(0, CLASSES, (batch,))
        for _ in range(STEPS):
            loss = cross_entropy(model(data), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            del loss
    blocks = [e for e in log.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for event in sorted(blocks, key=lambda event: event.start_ns()):
        now += event.nbytes()
        peak = max(peak, now)
    return {**held(model, optimizer), **kept(model, data)}, peak


def make_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if name == "adam":
        return torch.optim.Adam(trained)
    return torch.optim.SGD(trained, lr=1e-3, momentum=0.9 if name == "momentum" else 0.0)


def held(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """The bytes that exist after a step, whatever the batch."""
    states = [value for one in optimizer.state.values() for value in one.values()]
    return {
        "weights": sum(one.nbytes for one in model.state_dict().values()),
        "gradients": sum(p.grad.nbytes for p in model.parameters() if p.grad is not None),
        # Adam also counts its steps, in 4 bytes for each parameter
        "optimizer states": sum(s.nbytes for s in states if torch.is_tensor(s) and s.dim()),
        "weights in fours": sum(4 * one.numel() for one in model.state_dict().values()),
        "parameters": sum(one.nbytes for one in model.parameters()),
        "trained and buffers": sum(
            [p.nbytes for p in model.parameters() if p.requires_grad]
            + [buffer.nbytes for buffer in model.buffers()]
        ),
    }


def kept(model: nn.Sequential, data: Tensor) -> dict[str, int]:
    """The bytes that autograd keeps in a forward pass, with `data`; and others that it does not."""
    own = {one.untyped_storage().data_ptr() for one in model.state_dict().values()}
    passed = [data]

    def by_autograd(model: Iterable[Callable[[Tensor], Tensor]]) -> dict[int, Tensor]:
        """What is saved, by the address of its memory."""
        saved = {data.untyped_storage().data_ptr(): data}

        def pack(tensor: Tensor) -> Tensor:
            if tensor.untyped_storage().data_ptr() not in own:
                saved[tensor.untyped_storage().data_ptr()] = tensor
            return tensor

        passed[1:] = []
        x = data
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            for layer in model:
                x = layer(x)
                passed.append(x)
        return saved

    saved = by_autograd(model)
    tensors = list(saved.values())
    outputs = sum(one.nbytes for one in passed)
    in_place = [
        out
        for layer, out in zip(model, passed[1:], strict=True)
        if getattr(layer, "inplace", False)
    ]
    figures = {
        "activations": sum(one.nbytes for one in tensors),
        "outputs": outputs,
        "in place": sum(one.nbytes for one in in_place if one.requires_grad),
        "in place and kept": sum(
            one.nbytes for one in in_place if one.untyped_storage().data_ptr() in saved
        ),
        "indices": sum(one.nbytes for one in tensors if one.dtype == torch.int64),
        "last": passed[-2].nbytes,
        "batch": data.nbytes,
    }
    copying = [
        (lambda x: x.flatten(1).clone()) if isinstance(layer, nn.Flatten) else layer
        for layer in model
    ]
    figures["flatten copies"] = sum(one.nbytes for one in by_autograd(copying).values())
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    figures["all trained"] = sum(one.nbytes for one in by_autograd(model).values())
    return figures


# ---- what the answer is asked


def ask_answer(answer: ModuleType, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each network: its budget; for each size of memory that size, the largest batch, and the
    budgets at that batch and one more. Two more sizes are those at the edge by the answer's own
    budget: all of it for this batch, and one byte less than for a batch of one."""
    found = []
    for network in inputs["networks"]:

        def budget(batch: Any, network: Network = network) -> Any:
            shape = (batch, *network["sample"])
            return answer.memory_budget(build(network, "meta"), shape, network["optimizer"])

        own = [budget(network["batch"]), budget(1)]
        edges = []
        for value, less in zip(own, (0, 1), strict=True):
            figures = list(value.values()) if isinstance(value, dict) else [None]
            if all(type(one) is int and 0 <= one < 10**15 for one in figures):
                edges.append(sum(figures) - less)
        fits = []
        for memory in [*network["memory"], *edges]:
            sample = tuple(network["sample"])
            model = build(network, "meta")
            batch = answer.largest_batch(model, sample, network["optimizer"], memory)
            sane = type(batch) is int and 0 <= batch < 10**6
            fits.append([memory, batch, budget(batch) if sane and batch else None,
                         budget(batch + 1) if sane else None])  # fmt: skip
        found.append({"budget": own[0], "fits": fits})
    return found
