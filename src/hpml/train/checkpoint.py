"""A checkpoint is either the old one or the new one, never half of one."""

import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

from hpml.errors import UserError
from hpml.files import atomic

NAME = "checkpoint.pt"
SHARDS = ("shards-0", "shards-1")  # folders of a sharded checkpoint's tensors: one, and the next


def save(folder: str | os.PathLike[str], state: dict[str, Any]) -> Path:
    """Write `state` (tensors and plain values) to `folder`/checkpoint.pt. One rank calls this.

    Written beside it under another name, forced to disk, and renamed over the old one, which POSIX
    does at once or not at all: a run killed on the way leaves the old checkpoint.
    """
    path = Path(folder) / NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished").name  # one file, however many runs are killed
    with atomic.replacing(path, durable=True, meanwhile=unfinished) as file:
        torch.save(state, file)
    return path


def load(folder: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The state in `folder`, on the CPU; None where there is no checkpoint yet.

    Raises UserError when the file is not one. Only tensors and plain values are unpickled.
    """
    path = Path(folder) / NAME
    if not path.exists():
        return None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise UserError(
            f"{path} is not a checkpoint of this program: delete it or name another folder"
        ) from error


def names(saved: dict[str, Any]) -> Collection[str]:
    """Names of the tensors of a checkpoint, whether they are in it or in a folder beside it."""
    return saved["tensors"] if "tensors" in saved else saved["names"]


def remove_shards(folder: str | os.PathLike[str], keep: str | None = None) -> None:
    """Remove the folders of tensors that checkpoint.pt does not name, all but `keep`."""
    for name in SHARDS:
        if name != keep:
            shutil.rmtree(Path(folder) / name, ignore_errors=True)
