"""The training script in processes of its own."""

import pytest

from hpml.errors import UserError
from hpml.modules.m03_profiling.lecture import script

SMALL = "--epochs 1 --samples 32 --test-samples 10 --batch-size 8 --widths 8,8 --threads 1"


def test_on_two_ranks_it_hands_back_the_history_and_fills_the_log_folder(tmp_path):
    history = script.run(SMALL, logs=tmp_path / "log folder", ranks=2)
    assert list(tmp_path.glob("log folder/events.out.tfevents.*"))
    assert (history.world_size, history.threads, len(history.epochs)) == (2, 1, 1)


def test_what_the_script_refuses_is_one_line():
    with pytest.raises(UserError, match="train: --epochs is 0, expected at least 1"):
        script.run("--epochs 0")
