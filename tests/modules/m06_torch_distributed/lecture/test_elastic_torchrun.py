"""Elastic restart: torchrun goes on with the nodes that are left, from the last checkpoint."""

import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import torch

from hpml.errors import UserError
from hpml.modules.m06_torch_distributed.lecture import elastic_torchrun
from hpml.modules.m06_torch_distributed.lecture.elastic_torchrun import (
    Node,
    lose_second_node,
    nodes,
)
from hpml.train import learning_rate
from hpml.train.config import TrainConfig
from hpml.train.history import read_history

pytestmark = pytest.mark.measures  # a clock

LIMIT = 120.0  # seconds, for any of the waits here
EPOCHS, SAMPLES = 5, 3000


def wait_for(path: Path, node: Node) -> None:
    limit = time.monotonic() + LIMIT
    while not path.exists():
        assert time.monotonic() < limit, node.log.read_text()
        assert node.process.is_running(), node.log.read_text()
        time.sleep(0.02)


def options(folder: Path) -> list[str]:
    text = f"--epochs {EPOCHS} --samples {SAMPLES} --test-samples 100 --batch-size 50"
    text += " --widths 8,16,16 --precision fp32 --threads 1 --no-progress --resume"
    return [*text.split(), "--checkpoint", str(folder), "--out", str(folder / "history.json")]


def ranks_in(epoch: int, lr: float) -> int:
    """How many ranks there were at the end of an epoch: the learning rate grows with them."""
    config = TrainConfig()
    share = learning_rate.shape(epoch / EPOCHS, config.warmup)
    rates = [config.lr * learning_rate.RULES["linear"](ranks) * share for ranks in (1, 2)]
    return 1 + [lr == pytest.approx(rate) for rate in rates].index(True)


def test_after_a_node_is_lost_the_other_finishes_every_epoch_alone(tmp_path):
    with nodes(2, ["-m", "hpml.train", *options(tmp_path)]) as (left, lost):
        wait_for(tmp_path / "checkpoint.pt", left)
        lost.lose()
        assert not (tmp_path / "history.json").exists()  # the loss came in the middle
        assert left.wait(LIMIT) == 0, left.log.read_text()
        log = left.log.read_text()
    history = read_history(tmp_path / "history.json")
    assert history.world_size == 1
    assert not history.stopped
    assert [epoch.epoch for epoch in history.epochs] == list(range(1, EPOCHS + 1))
    images = [epoch.images_per_second * epoch.seconds for epoch in history.epochs]
    assert images == pytest.approx([SAMPLES] * EPOCHS)
    ranks = [ranks_in(epoch.epoch, epoch.lr) for epoch in history.epochs]
    assert ranks[0] == 2
    assert ranks[-1] == 1
    assert ranks == sorted(ranks, reverse=True)
    assert log.count("after 5 epochs") == 1
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert (state["position"]["epoch"], state["position"]["consumed"]) == (EPOCHS, 0)


def test_nothing_is_left_of_nodes_that_did_not_finish(tmp_path):
    with nodes(1, ["-m", "hpml.train", *options(tmp_path)]) as (node,):
        wait_for(tmp_path / "checkpoint.pt", node)
        family = [node.process, *node.process.children(recursive=True)]
        assert len(family) >= 2
    assert not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in family
    )


class PlayedNode:
    """A node without processes, which writes down what is done to it."""

    def __init__(self, name: str, done: list[str], log: Path, code: int = 0) -> None:
        self.name, self.done, self.log, self.code = name, done, log, code

    def lose(self) -> None:
        self.done.append(f"{self.name} is lost")

    def wait(self, limit: float) -> int:
        self.done.append(f"{self.name} is waited for")
        return self.code


@pytest.fixture
def played(monkeypatch, tmp_path):
    """Two nodes of which the first has written a log; what is done to them, in order."""
    done: list[str] = []
    log = tmp_path / "0.log"
    log.write_text("starts\n[rank0]: x.py:1] RuntimeError: reset by peer. Try again\nmore\n")

    @contextmanager
    def two(count, arguments):
        assert (count, arguments) == (2, ["train.py"])
        yield [PlayedNode("first", done, log, code=7), PlayedNode("second", done, log)]
        done.append("both are ended")

    monkeypatch.setattr(elastic_torchrun, "nodes", two)
    return done


def test_the_second_node_is_lost_once_there_is_a_checkpoint(played, monkeypatch, tmp_path):
    checkpoint = tmp_path / "checkpoint.pt"

    def pause(seconds):
        assert played == []  # nobody is lost before there is a checkpoint
        checkpoint.touch()

    monkeypatch.setattr(time, "sleep", pause)
    loss = lose_second_node(["train.py"], checkpoint)
    assert played == ["second is lost", "first is waited for", "both are ended"]
    assert (loss.exit_code, loss.error) == (7, "RuntimeError: reset by peer")
    assert 0 <= loss.lost <= loss.ended


def test_without_a_checkpoint_no_node_is_lost(played, tmp_path):
    with pytest.raises(UserError, match=r"checkpoint\.pt was not written within 0 s"):
        lose_second_node(["train.py"], tmp_path / "checkpoint.pt", limit=0)
    assert played == []
