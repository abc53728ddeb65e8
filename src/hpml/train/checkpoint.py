"""A checkpoint is either the old one or the new one, never half of one."""

import os
from pathlib import Path
from typing import Any

import torch

from hpml.errors import UserError
from hpml.files import atomic

NAME = "checkpoint.pt"


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
