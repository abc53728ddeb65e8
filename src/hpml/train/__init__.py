"""Train a small network on CIFAR-10: one process, or many under torchrun or srun.

    python -m hpml.train --data DIR
    torchrun --nproc-per-node 2 -m hpml.train --data DIR --threads 1
    srun python -m hpml.train --data DIR
    horovodrun -np 2 python -m hpml.train --data DIR --threads 1
    mpirun -np 2 python -m hpml.train --data DIR --threads 1

    torchrun --nproc-per-node 4 -m hpml.train --data DIR --model vit --shard fsdp --tensor 2

Each rank has the whole network and a share of each batch; DistributedDataParallel, or Horovod
(`--backend`), averages the gradients. Or ranks share a network: see `layout.py` and `mesh.py`.
`train(config)` is the same for notebooks and benchmarks.
"""

import importlib
from typing import Any

# Imported when asked for: they need torch, which takes more than a second, and most of this
# package's other files do not.
_HOMES = {"Run": "run", "main": "__main__", "make_optimizer": "networks", "train": "run"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
