"""Records `_recorded_network.json.gz`: the graph of one training step of the course's network.

    python -m hpml.modules.m04_frameworks.checks.instructors._record_network

Forward, loss and backward of `ResidualNetwork`, traced by make_fx. An operator that returns several
tensors becomes a node for each. Bytes are [fixed, for each image of the batch].
"""

import gzip
import json
import operator
from pathlib import Path
from typing import Any

import torch
from torch.func import functional_call
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from hpml.models.residual import ResidualNetwork

TARGET = Path(__file__).with_name("_recorded_network.json.gz")
BATCHES = (4, 5)


def traced(batch: int) -> GraphModule:
    """Loss and gradients of a batch of images, as a graph."""
    model = ResidualNetwork()
    learned = [name for name, one in model.named_parameters() if one.requires_grad]

    def step(state: dict[str, torch.Tensor], images: torch.Tensor, labels: torch.Tensor) -> Any:
        state = {
            name: one.requires_grad_() if name in learned else one for name, one in state.items()
        }
        loss = F.cross_entropy(functional_call(model, state, (images,)), labels)
        return [loss, *torch.autograd.grad(loss, [state[name] for name in learned])]

    state = {name: one.detach().clone() for name, one in model.state_dict().items()}
    images, labels = torch.randn(batch, 3, 32, 32), torch.zeros(batch, dtype=torch.long)
    return make_fx(step)(state, images, labels)


def tensors(graph: GraphModule) -> dict[str, Any]:
    """The graph in the form of the exercise. Its bytes are those of this batch."""
    nodes, name_of = [], {}
    given, outputs = [], []
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        inputs = [name_of[one] for one in _reads(node) if one in name_of]
        if node.op == "placeholder":
            name_of[node] = node.name
            given.append(node.name)
        elif node.op == "output":
            outputs = inputs
        elif isinstance(value, torch.Tensor) and not _is_in_place(node):
            name_of[node] = _named(node)
            nodes.append(
                {
                    "name": name_of[node],
                    "inputs": inputs,
                    "bytes": 0 if _is_view(node) else value.numel() * value.element_size(),
                    "view": _is_view(node),
                }
            )
    used = {one for node in nodes for one in node["inputs"]}
    return {"nodes": nodes, "given": [one for one in given if one in used], "outputs": outputs}


def _named(node: Node) -> str:
    if node.target is not operator.getitem:
        return node.name
    source, number = node.args
    return f"{source.name}.{number}"


def _reads(node: Node) -> list[Node]:
    """The nodes that are read: of a tensor out of several, those of the operator that made it."""
    if node.target is operator.getitem:
        return node.args[0].all_input_nodes
    return node.all_input_nodes


def _is_view(node: Node) -> bool:
    returns = getattr(getattr(node.target, "_schema", None), "returns", ())
    return bool(returns) and returns[0].alias_info is not None


def _is_in_place(node: Node) -> bool:
    """Whether it changes an input: here, counters of batches alone."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def main() -> None:
    fewer, more = (tensors(traced(batch)) for batch in BATCHES)
    for node, other in zip(fewer["nodes"], more["nodes"], strict=True):
        each = other["bytes"] - node["bytes"]
        node["bytes"] = [node["bytes"] - BATCHES[0] * each, each]
    fewer["torch"] = torch.__version__.partition("+")[0]
    TARGET.write_bytes(gzip.compress(json.dumps(fewer).encode(), mtime=0))
    print(f"{len(fewer['nodes'])} nodes, {TARGET.stat().st_size} bytes: {TARGET.name}")


if __name__ == "__main__":
    main()
