# %%answer zero1
# unusual: an inner optimizer's group for each parameter, blocking broadcasts, a state loaded whole
import torch
import torch.distributed as dist


class ZeroOptimizer:
    def __init__(self, params, optimizer_class, **defaults):
        params = list(params)
        if params and isinstance(params[0], torch.Tensor):
            params = [dict(params=params)]
        self.rank = dist.get_rank()
        self.taken = torch.zeros(dist.get_world_size(), dtype=torch.int64)
        self.sources = []
        # The plain optimizer knows all groups. It makes states when it first updates, and finds no
        # gradients of other ranks' parameters.
        self.plain = optimizer_class(
            [{**g, "params": list(g["params"])} for g in params], **defaults
        )
        for group in self.plain.param_groups:
            self._assign(group)

    @property
    def param_groups(self):
        return self.plain.param_groups

    def _assign(self, group):
        for p in group["params"]:
            source = int(self.taken.argmin())
            self.taken[source] += p.numel() * p.element_size()
            self.sources.append(source)

    def _all(self):
        return [p for group in self.plain.param_groups for p in group["params"]]

    def add_param_group(self, group):
        self.plain.add_param_group(group)
        self._assign(self.plain.param_groups[-1])

    def zero_grad(self):
        self.plain.zero_grad(set_to_none=True)

    def step(self):
        hidden = []
        for p, source in zip(self._all(), self.sources):
            if source != self.rank:
                hidden.append((p, p.grad))
                p.grad = None
        self.plain.step()
        for p, grad in hidden:
            p.grad = grad
        for p, source in zip(self._all(), self.sources):
            dist.broadcast(p.data, source)

    def gathered_state_dict(self):
        whole = self.plain.state_dict()
        for number, source in enumerate(self.sources):
            message = [whole["state"].get(number)]
            dist.broadcast_object_list(message, src=source)
            if message[0] is not None:
                whole["state"][number] = message[0]
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole if self.rank == 0 else None
