# %%answer zero1
# unusual: an Optimizer itself, the largest parameters first, messages from rank to rank
import heapq

import torch
import torch.distributed as dist
from torch.optim import Optimizer


class ZeroOptimizer(Optimizer):
    def __init__(self, params, optimizer_class, **defaults):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._loads = [(0, rank) for rank in range(self.size)]
        self._owners = {}
        self._inner = None
        self._kind = optimizer_class
        super().__init__(params, defaults)

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in sorted(group["params"], key=lambda p: -p.nbytes):
            load, owner = heapq.heappop(self._loads)
            self._owners[p] = owner
            heapq.heappush(self._loads, (load + p.nbytes, owner))
        own = dict(group, params=[p for p in group["params"] if self._owners[p] == self.rank])
        if self._inner is None:
            self._inner = self._kind([own], **self.defaults)
        else:
            self._inner.add_param_group(own)
        for key, value in self._inner.param_groups[-1].items():
            group.setdefault(key, value)

    @torch.no_grad()
    def step(self, closure=None):
        for inner, outer in zip(self._inner.param_groups, self.param_groups):
            for key in outer:
                if key != "params":
                    inner[key] = outer[key]
        self._inner.step()
        for group in self.param_groups:
            for p in group["params"]:
                owner = self._owners[p]
                if owner == self.rank:
                    others = (peer for peer in range(self.size) if peer != owner)
                    for work in [dist.isend(p.data, peer) for peer in others]:
                        work.wait()
                else:
                    dist.recv(p.data, owner)

    def gathered_state_dict(self):
        order = [p for group in self.param_groups for p in group["params"]]
        place = {id(p): str(n) for n, p in enumerate(order)}
        own = {place[id(p)]: dict(state) for p, state in self._inner.state.items()}
        everyones = [None] * self.size
        dist.all_gather_object(everyones, own)
        if self.rank:
            return None
        state = {int(n): s for part in everyones for n, s in part.items()}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            packed["params"] = [int(place[id(p)]) for p in group["params"]]
            groups.append(packed)
        return {"state": dict(sorted(state.items())), "param_groups": groups}
