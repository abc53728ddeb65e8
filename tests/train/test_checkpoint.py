"""A checkpoint is whole, or it is the one before."""

import subprocess
import sys

import pytest
import torch

from hpml.errors import UserError
from hpml.train import checkpoint

# Killed, as by a node that fails: while bytes are written, before they are on disk, before the
# rename.
KILLED = """
import os, signal, sys, torch
from hpml.train import checkpoint
folder, moment = sys.argv[1:]
def die(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)
if moment == "writing":
    def save(state, file):
        file.write(b"half a check")
        file.flush()
        die()
    torch.save = save
else:
    setattr(os, moment, die)
checkpoint.save(folder, {"step": 2})
"""


@pytest.mark.parametrize("moment", ["writing", "fsync", "replace"])
def test_killed_while_writing_leaves_the_old_one(tmp_path, moment):
    checkpoint.save(tmp_path, {"step": 1})
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path, moment], timeout=60)
    assert killed.returncode == -9
    assert checkpoint.load(tmp_path) == {"step": 1}
    checkpoint.save(tmp_path, {"step": 3})
    assert checkpoint.load(tmp_path) == {"step": 3}
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.NAME]


def test_tensors_come_back_as_they_were(tmp_path):
    weights = torch.randn(3, 4)
    checkpoint.save(tmp_path / "new" / "folder", {"weights": weights, "epoch": 2})
    state = checkpoint.load(tmp_path / "new" / "folder")
    assert torch.equal(state["weights"], weights)
    assert state["epoch"] == 2


def test_where_there_is_none_there_is_none(tmp_path):
    assert checkpoint.load(tmp_path) is None


def test_a_file_that_is_none_is_refused_in_one_line(tmp_path):
    (tmp_path / checkpoint.NAME).write_bytes(b"not a checkpoint")
    with pytest.raises(UserError, match=r"checkpoint\.pt is not a checkpoint") as refused:
        checkpoint.load(tmp_path)
    assert "\n" not in str(refused.value)
