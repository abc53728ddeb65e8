# %%answer memory_budget
# unusual: knows one tensor from another by its storage, in a forward pass with hooks
import torch
from torch import nn

TIMES = dict(sgd=0, momentum=1, adam=2)
NEEDS_OUTPUT, NEEDS_NOTHING = (nn.ReLU, nn.Sigmoid, nn.Tanh), (nn.Flatten, nn.Identity)


def memory_budget(model, shape, optimizer):
    weights = sum(t.nbytes for t in model.state_dict().values())
    gradients = sum(p.nbytes for p in filter(lambda p: p.requires_grad, model.parameters()))
    kept, alive, extra = {}, [], 0

    def look(layer, args, out):
        nonlocal extra
        (given,) = args
        alive.extend([given, out])
        if not out.requires_grad or isinstance(layer, NEEDS_NOTHING):
            return
        one = out if isinstance(layer, NEEDS_OUTPUT) else given
        kept[one.untyped_storage()._cdata] = one.untyped_storage().nbytes()
        if isinstance(layer, nn.MaxPool2d):
            extra += out.numel() * torch.int64.itemsize

    hooks = [layer.register_forward_hook(look) for layer in model]
    batch = torch.empty(shape, dtype=model[0].weight.dtype, device="meta")
    kept[batch.untyped_storage()._cdata] = batch.nbytes
    model(batch)
    for hook in hooks:
        hook.remove()
    return {
        "activations": sum(kept.values()) + extra,
        "weights": weights,
        "gradients": gradients,
        "optimizer states": gradients * TIMES[optimizer],
    }


def largest_batch(model, sample, optimizer, memory):
    low, high = 0, 1
    while total(model, sample, optimizer, high) <= memory:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if total(model, sample, optimizer, middle) <= memory:
            low = middle
        else:
            high = middle
    return low


def total(model, sample, optimizer, batch):
    return sum(memory_budget(model, (batch, *sample), optimizer).values())
