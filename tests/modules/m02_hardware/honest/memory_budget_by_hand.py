# %%answer memory_budget
# unusual: computes every shape itself and never calls a layer; plain numbers, two passes
import math

from torch import nn


def memory_budget(model, shape, optimizer):
    size = next(model.parameters()).element_size()
    trained = frozen = others = 0
    for layer in model:
        for p in layer.parameters(recurse=False):
            if p.requires_grad:
                trained += math.prod(p.shape)
            else:
                frozen += math.prod(p.shape)
        others += sum(math.prod(b.shape) * b.dtype.itemsize for b in layer.buffers())
    shapes = [tuple(shape)]
    for layer in model:
        shapes.append(behind(layer, shapes[-1]))
    first = min(
        n for n, layer in enumerate(model) if any(p.requires_grad for p in layer.parameters())
    )
    needed, indices = {0}, 0
    for n, layer in enumerate(model):
        if n < first or isinstance(layer, nn.Flatten):
            continue
        needed.add(n + 1 if isinstance(layer, nn.ReLU) else n)
        if isinstance(layer, nn.MaxPool2d):
            indices += 8 * math.prod(shapes[n + 1])
    # A flattened tensor is the one in front of it
    for n, layer in enumerate(model):
        if isinstance(layer, nn.Flatten) and {n, n + 1} <= needed:
            needed.remove(n + 1)
    kept = size * sum(math.prod(shapes[n]) for n in needed)
    return {
        "weights": size * (trained + frozen) + others,
        "gradients": size * trained,
        "optimizer states": ["sgd", "momentum", "adam"].index(optimizer) * size * trained,
        "activations": kept + indices,
    }


def behind(layer, shape):
    if isinstance(layer, nn.Conv2d):
        (k, _), (p, _), (s, _) = layer.kernel_size, layer.padding, layer.stride
        return (shape[0], layer.out_channels, *((n + 2 * p - k) // s + 1 for n in shape[2:]))
    if isinstance(layer, nn.MaxPool2d):
        return (*shape[:2], *(n // layer.kernel_size for n in shape[2:]))
    if isinstance(layer, nn.Flatten):
        return (shape[0], math.prod(shape[1:]))
    if isinstance(layer, nn.Linear):
        return (shape[0], layer.out_features)
    return shape


def largest_batch(model, sample, optimizer, memory):
    one, two = (sum(memory_budget(model, (n, *sample), optimizer).values()) for n in (1, 2))
    return max(0, 1 + (memory - one) // (two - one))
