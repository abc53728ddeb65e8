"""A checkpoint that every rank writes its part of, and that any layout of ranks can read.

torch.distributed.checkpoint writes the tensors into one of two folders, the one that is not in use;
then checkpoint.pt, which names the folder, is replaced as a whole. Whatever is killed on the way,
checkpoint.pt names tensors that are all there.
"""

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint import FileSystemReader

from hpml.errors import UserError
from hpml.train import checkpoint


def save(
    folder: Path,
    plain: dict[str, Any],
    tensors: dict[str, Tensor],
    device: torch.device,
) -> None:
    """Write this rank's part of `tensors` (state.py), and on rank 0 `plain`. A collective.

    What several ranks have is written by one of them. The folder must be one that all ranks see.
    """
    chosen = torch.zeros((), dtype=torch.int64, device=device)
    rank = dist.get_rank()
    if rank == 0:
        chosen += _in_use(folder) == checkpoint.SHARDS[0]
        checkpoint.remove_shards(folder, keep=checkpoint.SHARDS[1 - int(chosen)])
    dist.broadcast(chosen, src=0)
    name = checkpoint.SHARDS[int(chosen)]
    with _without_advice():
        dcp.save(tensors, checkpoint_id=folder / name)
    if rank == 0:
        metadata = FileSystemReader(folder / name).read_metadata()
        names = sorted(metadata.state_dict_metadata)  # of all ranks
        checkpoint.save(folder, plain | {"shards": name, "names": names})
        checkpoint.remove_shards(folder, keep=name)


def load(folder: Path, saved: Mapping[str, Any], tensors: dict[str, Tensor]) -> None:
    """Set this rank's `tensors` from the folder that `saved` names. All ranks call this.

    Raises UserError where that is not there.
    """
    path = folder / saved["shards"]
    if not (path / ".metadata").is_file():  # written last
        raise UserError(
            f"{path} is not whole, and {checkpoint.NAME} beside it names it: do all ranks see "
            "this folder? name one that they share, or delete it to start again"
        )
    with _without_advice():
        dcp.load(tensors, checkpoint_id=path, no_dist=not dist.is_initialized())


def load_whole(whole: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Set this rank's `tensors`, or its parts of them, from `whole` ones that it has."""
    with tempfile.TemporaryDirectory() as folder, _without_advice():
        # Which part is whose, dcp knows; each rank asks it alone, with files of its own.
        wanted = {name: whole[name] for name in tensors}
        dcp.save(wanted, checkpoint_id=folder, no_dist=True)
        dcp.load(tensors, checkpoint_id=folder, no_dist=True)


def _in_use(folder: Path) -> str | None:
    try:
        return (checkpoint.load(folder) or {}).get("shards")
    except UserError:
        return None  # to be replaced


@contextmanager
def _without_advice() -> Iterator[None]:
    """Not shown: advice of torch's to programs that meant to save from one process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
