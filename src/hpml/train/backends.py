"""What the ranks of a training run communicate with: nothing, torch.distributed, or Horovod.

The training script only calls `there()`.
"""

import contextlib
import sys
from collections.abc import Iterator

import torch
from torch import distributed as dist

from hpml.distributed_environment import ProcessInfo
from hpml.errors import UserError
from hpml.train import hardware
from hpml.train.backend import Backend
from hpml.train.config import TrainConfig
from hpml.train.ddp import Ddp

HOROVODS = ("horovodrun", "mpirun")  # launchers that "auto" takes Horovod under


def there() -> Backend:
    """The back end that this process has been initialised with."""
    if dist.is_initialized():
        return Ddp()
    if "horovod.torch" in sys.modules:
        # Imported here: Horovod is not installed everywhere.
        import horovod.torch as hvd

        from hpml.train.horovod import Horovod

        if hvd.is_initialized():
            return Horovod()
    return Backend()


def for_run(config: TrainConfig, device: torch.device) -> Backend:
    """The back end of a run: that which is there, with its ranks laid out as `config` asks.

    Raises UserError where they cannot be.
    """
    present = there()
    if not config.splits:
        return Ddp(config.bucket_mib) if isinstance(present, Ddp) else present
    if present.world_size > 1 and not isinstance(present, Ddp):
        raise UserError(
            f"{config.splits} needs torch.distributed, and the ranks here have met by Horovod: "
            "start with torchrun or srun"
        )
    from hpml.train.layout import lay_out

    layout = lay_out(config, present.world_size)
    if layout.is_plain:
        return present
    from hpml.train.mesh import Mesh

    return Mesh(layout, config.micro_batches, device)


@contextlib.contextmanager
def joined(asked: str, process: ProcessInfo, device: torch.device) -> Iterator[None]:
    """Meet the other ranks, if there are any, by "ddp", "horovod", or "auto".

    A back end that is initialised already is used, and left as it is. Raises UserError where it is
    not the one asked for, Horovod is not installed, or the other ranks cannot be found.
    """
    present = there()
    if asked == "auto":
        asked = "horovod" if process.launcher in HOROVODS else "ddp"
        if type(present) is not Backend:
            asked = "ddp" if isinstance(present, Ddp) else "horovod"
    if asked == "horovod":
        if isinstance(present, Ddp):
            raise UserError(
                "--backend is horovod, and torch.distributed is initialised here: use one of them"
            )
        meeting = _horovod(process)
    elif process.launcher in HOROVODS and process.world_size > 1 and not isinstance(present, Ddp):
        raise UserError(
            f"--backend is ddp, and {process.launcher} gives it no place to meet: "
            "start with torchrun or srun, or leave --backend out"
        )
    else:
        meeting = hardware.process_group(process, device)
    with meeting:
        yield


def _horovod(process: ProcessInfo) -> contextlib.AbstractContextManager[None]:
    from hpml.ranks.flavour import missing

    if why := missing("horovod"):
        raise UserError(f"--backend horovod: {why}")
    from hpml.train import horovod

    return horovod.initialised(process)
