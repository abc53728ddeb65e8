# %%answer mesh_layout
# unusual: a class of its own, numpy's unravel_index and its integers, lists for pairs
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Mesh:
    sizes: dict
    layout: dict

    def parts(self, name):
        return self.sizes.get(self.layout.get(name, ""), 1)

    def check(self, names):
        axes = [self.layout[n] for n in names if n in self.layout]
        if any(axes.count(a) > 1 for a in axes):
            raise ValueError("one dimension of the mesh for two")
        for name, size in names.items():
            if np.remainder(size, self.parts(name)):
                raise ValueError(name)


def slice_of(tensor, mesh, layout, rank):
    m = Mesh(dict(mesh), dict(layout))
    m.check(tensor)
    where = dict(zip(mesh, np.unravel_index(rank, list(mesh.values())), strict=True))
    found = {}
    for name, size in tensor.items():
        edges = np.linspace(0, size, m.parts(name) + 1).astype(int)
        k = int(where[layout[name]]) if name in layout else 0
        found[name] = [int(edges[k]), int(edges[k + 1])]
    return found


def forward_sum(inputs, output, mesh, layout):
    m = Mesh(dict(mesh), dict(layout))
    whole = {}
    for tensor in [*inputs, output]:
        whole |= tensor
    m.check(whole)
    over = sorted({layout[n] for n in set(whole) - set(output) if n in layout})
    if not over:
        return ((), 0)
    sizes = [size // m.parts(name) for name, size in output.items()]
    return (tuple(over), int(np.prod(sizes, dtype=np.int64)) * np.dtype(np.float32).itemsize)


def gradient_sums(inputs, output, mesh, layout):
    return [
        forward_sum([output] + [o for o in inputs if o is not one], one, mesh, layout)
        for one in inputs
    ]
