"""Each layer of a network, forward and backward: seconds, FLOPs, and the bytes it must move.

As `caffe time` prints them (Jia et al. 2014, Caffe), for any PyTorch module. The network runs once
to see which layers are called with what. Then each layer runs by itself on these inputs, in the
order of the network, so that the caches hold what another layer left there.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count


@dataclass(frozen=True)
class Pass:
    """One direction of a layer: `seconds`, `flops`, and `nbytes` read and written at least.

    `flops` as torch's FlopCounterMode counts matrix products, convolutions and attention, a
    multiplication and an addition as two. For what it does not count: one for each number written,
    which is exact for an addition or a ReLU and too low for a normalisation.
    `nbytes` forward: inputs, parameters, output; backward: the output's gradient, what the forward
    pass saved, and the gradients that are computed. Each once, as if nothing were left in a cache
    and nothing had to be read twice.
    """

    seconds: float
    flops: int
    nbytes: int

    @property
    def intensity(self) -> float:
        """FLOP/byte."""
        return self.flops / self.nbytes if self.nbytes else 0.0

    @property
    def rate(self) -> float:
        """FLOP/s."""
        return self.flops / self.seconds


@dataclass(frozen=True)
class Layer:
    """`name` as in the module ("stages.0.down.convolution"), or for a function its caller's name
    and the function ("stages.0.down: gelu"); `kind`: "Conv2d", "gelu"."""

    name: str
    kind: str
    forward: Pass
    backward: Pass


@dataclass
class Arguments:
    """What a layer is called with, and the tensors whose gradients it has to compute."""

    args: list[Any]
    kwargs: dict[str, Any]
    wanted: list[Tensor]


@dataclass
class Call:
    """One call of a layer while the network ran."""

    name: str
    kind: str
    run: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parameters: Sequence[Tensor] = field(default_factory=list)
    in_place: bool = False

    def arguments(self) -> Arguments:
        """Fresh ones: nothing leads back to the layer before."""
        wanted = [parameter for parameter in self.parameters if parameter.requires_grad]

        def fresh(value: Any) -> Any:
            if isinstance(value, list | tuple):
                return type(value)(map(fresh, value))
            if not isinstance(value, Tensor) or isinstance(value, nn.Parameter):
                return value
            leaf = value.detach()
            if value.requires_grad:
                wanted.append(leaf.requires_grad_())
            return leaf.clone() if self.in_place else leaf

        args = [fresh(value) for value in self.args]
        kwargs = {name: fresh(value) for name, value in self.kwargs.items()}
        functions = (v for v in (*args, *kwargs.values()) if isinstance(v, nn.Parameter))
        wanted += [v for v in functions if v.requires_grad]
        return Arguments(args, kwargs, wanted)


def layers(
    model: nn.Module,
    *inputs: Tensor,
    rounds: int = 5,
    whole: type[nn.Module] | tuple[type[nn.Module], ...] = (),
) -> list[Layer]:
    """The layers of a network in the order in which `model(*inputs)` calls them.

    A layer is a module without modules in it, one of the types `whole`, or a function of torch that
    is called outside of these and returns a new tensor of floating-point numbers (`F.gelu`, `+`).
    Seconds: the quickest of `rounds`. Afterwards the model is as it was before.
    """
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        return _measure(_calls(model, inputs, whole), rounds)
    finally:
        for name, buffer in model.named_buffers():  # a batch normalisation has counted
            buffer.copy_(buffers[name])


def _measure(calls: Sequence[Call], rounds: int) -> list[Layer]:
    counted = [_count(call) for call in calls]
    forward, backward = ([float("inf")] * len(calls) for _ in range(2))
    for _ in range(rounds + 1):  # libraries choose and prepare in the first
        runs = []
        for index, call in enumerate(calls):
            arguments = call.arguments()
            started = _now(call)
            output = _tensor(call.run(*arguments.args, **arguments.kwargs))
            forward[index] = min(forward[index], _now(call) - started)
            runs.append((arguments.wanted, output))
        for index, (wanted, output) in reversed(list(enumerate(runs))):
            if not wanted or not output.requires_grad:
                backward[index] = 0.0
                continue
            gradient = torch.ones_like(output)
            started = _now(calls[index])
            torch.autograd.grad(output, wanted, gradient, allow_unused=True)
            backward[index] = min(backward[index], _now(calls[index]) - started)
    return [
        Layer(call.name, call.kind, Pass(there, *ahead), Pass(back, *behind))
        for call, there, back, (ahead, behind) in zip(
            calls, forward, backward, counted, strict=True
        )
    ]


def _calls(
    model: nn.Module, inputs: Sequence[Tensor], whole: type[nn.Module] | tuple
) -> list[Call]:
    """Run the network once, and record the calls of its layers."""
    calls: list[Call] = []
    around: list[str] = []  # names of the modules that run now, outermost first
    inside = 0  # a layer runs now: what it calls is a part of it

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            nonlocal inside
            kwargs, outermost = kwargs or {}, not inside
            inside += 1
            try:
                output = function(*args, **kwargs)
            finally:
                inside -= 1
            if outermost and _is_new(output, (*args, *kwargs.values())):
                name = getattr(function, "__name__", str(function)).strip("_")
                place = f"{around[-1]}: " if around and around[-1] else ""
                calls.append(Call(place + name, name, function, args, kwargs))
            return output

    def before(name: str, layer: bool) -> Callable:
        def hook(module: nn.Module, args: tuple, kwargs: dict) -> None:
            nonlocal inside
            around.append(name)
            inside += layer
            if layer and inside == 1:
                in_place = getattr(module, "inplace", False)
                kept = tuple(a.clone() if in_place and isinstance(a, Tensor) else a for a in args)
                kind, here = type(module).__name__, [*module.parameters()]
                # `forward`, without the hooks: those belong to this recording
                calls.append(Call(name or kind, kind, module.forward, kept, kwargs, here, in_place))

        return hook

    def after(layer: bool) -> Callable:
        def hook(module: nn.Module, args: tuple, output: Any) -> None:
            nonlocal inside
            around.pop()
            inside -= layer

        return hook

    handles = []
    for name, module in model.named_modules():
        layer = not any(module.children()) or isinstance(module, whole)
        handles.append(module.register_forward_pre_hook(before(name, layer), with_kwargs=True))
        handles.append(module.register_forward_hook(after(layer)))
    try:
        with Functions():
            model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return calls


def _count(call: Call) -> tuple[tuple[int, int], tuple[int, int]]:
    """(FLOPs, bytes) of a call forward and backward."""
    arguments = call.arguments()
    read = [
        v for v in _flat((*arguments.args, *arguments.kwargs.values())) if isinstance(v, Tensor)
    ]
    saved: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with _counter() as counter, saved_tensors_hooks(keep, lambda t: t):
        output = _tensor(call.run(*arguments.args, **arguments.kwargs))
    if not call.in_place and not _is_new(output, read):  # a view: nothing is moved
        return (0, 0), (0, 0)
    forward = (
        counter.get_total_flops() or output.numel(),
        _nbytes([*read, *call.parameters, output]),
    )
    if not arguments.wanted or not output.requires_grad:
        return forward, (0, 0)
    gradient = torch.ones_like(output)
    with _counter() as counter:
        found = torch.autograd.grad(output, arguments.wanted, gradient, allow_unused=True)
    new = [g for g in found if g is not None and g.data_ptr() != gradient.data_ptr()]
    flops = counter.get_total_flops() or sum(g.numel() for g in new)
    return forward, (flops, _nbytes([gradient, *saved, *new]) if new else 0)


def _counter() -> FlopCounterMode:
    """torch's, and PyTorch's attention for CPUs, which it does not know."""
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    back = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    more = {
        attention: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
        back: lambda g, q, k, v, *_, **__: sdpa_backward_flop_count(g, q, k, v),
    }
    return FlopCounterMode(display=False, custom_mapping=more)


def _is_new(output: Any, arguments: Sequence[Any]) -> bool:
    """Whether a function returned floating-point numbers of its own, and no view or attribute."""
    if not isinstance(output, Tensor) or not output.is_floating_point():
        return False
    given = {t.untyped_storage().data_ptr() for t in _flat(arguments) if isinstance(t, Tensor)}
    return output.untyped_storage().data_ptr() not in given and bool(given)


def _nbytes(tensors: Sequence[Tensor]) -> int:
    """Bytes of the tensors, those at the same place once."""
    return sum({t.data_ptr(): t.numel() * t.element_size() for t in tensors}.values())


def _flat(values: Sequence[Any]) -> list[Any]:
    return [
        one
        for value in values
        for one in (_flat(value) if isinstance(value, list | tuple) else [value])
    ]


def _tensor(output: Any) -> Tensor:
    """The (first) tensor that a layer returns."""
    return (
        output
        if isinstance(output, Tensor)
        else next(one for one in _flat(output) if isinstance(one, Tensor))
    )


def _now(call: Call) -> float:
    if any(isinstance(v, Tensor) and v.is_cuda for v in _flat(call.args)):
        torch.cuda.synchronize()
    return time.perf_counter()
