"""The training script in processes of its own."""

import pytest

from hpml.errors import UserError
from hpml.train import script

SMALL = "--epochs 1 --samples 32 --test-samples 10 --batch-size 8 --widths 8,8 --threads 1"


def test_on_two_ranks_it_hands_back_the_history():
    history = script.run(SMALL, ranks=2)
    assert (history.world_size, history.threads, len(history.epochs)) == (2, 1, 1)


def test_what_the_script_refuses_is_one_line():
    with pytest.raises(UserError, match="train: --epochs is 0, expected at least 1"):
        script.run("--epochs 0")
