"""Training under SLURM that is disturbed, carries on, and learns what it would have learned."""

import contextlib
import fcntl
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from hpml.train import checkpoint
from hpml.train.history import Epoch, History, read_history

from ..waiting import until

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),
]

PATIENCE = 120.0  # seconds for a write
SCRIPT, SHARDED = "slurm/06_several_nodes.slurm", "slurm/07_fsdp.slurm"
RANKS = ["--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1"]
# An epoch is 25 steps of the two ranks, and takes less than a second.
EPOCHS = 12
SMALL = (
    f"--epochs {EPOCHS} --samples 2000 --batch-size 40 --test-samples 100 --widths 8,8,32".split()
)
# An epoch is 10 steps: after as many, ranks agree on what they were asked for.
SMALL_VIT = (
    f"--epochs {EPOCHS} --samples 400 --batch-size 20 --test-samples 100 --size tiny".split()
)


@dataclass(frozen=True)
class Training:
    """The job script of training on several nodes, submitted to a cluster."""

    cluster: Any
    job: str

    @property
    def folder(self) -> Path:
        return self.cluster.project() / "build/jobs" / self.job

    @property
    def log(self) -> str:
        return self.cluster.log_of(self.job)

    def job_field(self, field: str) -> str:
        return self.cluster.job(self.job)[field]

    def position(self) -> dict[str, Any]:
        """How far the training is, by its checkpoint."""
        return checkpoint.load(self.folder)["position"]

    def epochs(self) -> tuple[Epoch, ...]:
        """Those that the checkpoint has; each has its seconds, which no other run has."""
        return tuple(Epoch(**epoch) for epoch in self.position()["epochs"])

    def underway(self, known: tuple[Epoch, ...] = ()) -> None:
        """Wait until it has done an epoch more than those that are known."""
        there = (self.folder / checkpoint.NAME).exists
        until(lambda: there() and self.position()["epoch"] > len(known), "another epoch")
        assert self.position()["epoch"] < EPOCHS, "too late to disturb it"

    def requeued(self, known: tuple[Epoch, ...] = ()) -> tuple[Epoch, ...]:
        """Wait until it is back in the queue; the epochs that it has saved, among them the known.

        It was asked to save, since it stopped in the middle of an epoch.
        """
        until(lambda: self.job_field("JobState") == "PENDING", "the job to be back in the queue")
        assert self.position()["consumed"] > 0
        saved = self.epochs()
        assert len(known) < len(saved) < EPOCHS
        assert saved[: len(known)] == known
        return saved

    def history(self) -> History:
        assert self.cluster.end_of(self.job) == "COMPLETED", self.log
        return read_history(self.folder / "history.json")

    def rank(self, number: int) -> psutil.Process:
        """The process of a rank."""
        mine = {"SLURM_JOB_ID": self.job, "SLURM_PROCID": str(number)}
        for process in psutil.process_iter():
            try:
                if "hpml.train" in process.cmdline() and mine.items() <= process.environ().items():
                    return process
            except psutil.Error:
                continue
        raise AssertionError(f"rank {number} of job {self.job} does not run")

    def node(self, number: int) -> str:
        """The node of a rank."""
        return self.rank(number).environ()["SLURMD_NODENAME"]


@pytest.fixture(scope="module")
def submit():
    """Submits the training to a cluster; what is not over in the end is cancelled."""
    submitted = []

    def submit(cluster, script: str = SCRIPT, small: list[str] = SMALL) -> Training:
        job = cluster.submit(*RANKS, str(cluster.project() / script), *small)
        submitted.append(Training(cluster, job))
        return submitted[-1]

    yield submit
    for training in submitted:
        if training.cluster.folder.exists():
            training.cluster.run("scancel", training.job)


@pytest.fixture(scope="module")
def undisturbed(cluster, submit) -> History:
    """The same training, left in peace."""
    training = submit(cluster)
    history = training.history()
    assert len(history.epochs) == EPOCHS
    assert training.job_field("Restarts") == "0", training.log
    return history


def carried_on(training: Training, before: tuple[Epoch, ...], undisturbed: History) -> None:
    """It ended well, kept the epochs that it had, and learned what it would have learned."""
    history = training.history()
    assert 1 <= len(before) < EPOCHS
    assert history.epochs[: len(before)] == before
    assert (history.world_size, history.stopped) == (2, False)
    for name in ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "lr"):
        curve, expected = (
            [getattr(epoch, name) for epoch in whole.epochs] for whole in (history, undisturbed)
        )
        assert curve == pytest.approx(expected, rel=1e-5), name


def test_a_job_that_is_put_back_into_the_queue_saves_and_carries_on(cluster, submit, undisturbed):
    """One job, three times: starting it is what takes long."""
    training = submit(cluster)

    training.underway()
    cluster.output("scontrol", "requeue", training.job)
    saved = training.requeued()
    # Twice where scontrol and the script, which got a signal to stop, both asked for it.
    assert training.job_field("Restarts") in ("1", "2")

    # What --signal=TERM@90 of the script has SLURM do 90 s before the limit.
    training.underway(saved)
    cluster.output("scancel", "--signal=TERM", training.job)
    saved = training.requeued(saved)

    training.underway(saved)
    cluster.output("scancel", "--signal=USR1", training.job)
    until(lambda: training.position()["consumed"] > 0, "a checkpoint within an epoch")
    # The limit: what is still there is killed.
    cluster.output("scancel", "--signal=KILL", training.job)
    assert training.cluster.end_of(training.job) == "CANCELLED"
    saved = training.epochs()
    cluster.output("scontrol", "requeue", training.job)
    carried_on(training, saved, undisturbed)


def test_a_job_that_is_cancelled_stays_out_of_the_queue(cluster, submit):
    training = submit(cluster)
    training.underway()
    cluster.output("scancel", training.job)
    assert training.cluster.end_of(training.job) == "CANCELLED"
    assert training.job_field("Restarts") == "0", training.log


def lose_a_node(training: Training) -> tuple[Epoch, ...]:
    """Kill the node of rank 1, and wait until SLURM notices; the epochs that are saved."""
    node = training.cluster.pid(training.node(1))
    os.kill(node, signal.SIGKILL)  # process 1 of the node: all of it ends
    until(lambda: training.job_field("Restarts") == "1", "SLURM to notice")
    return training.epochs()


def test_a_lost_node_costs_no_more_than_the_steps_since_the_checkpoint(
    breaking, submit, undisturbed
):
    training = submit(breaking)
    training.underway()
    saved = lose_a_node(training)

    training.underway(saved)
    _kill_in_the_middle_of_writing(training)
    assert checkpoint.load(training.folder) is not None
    carried_on(training, training.epochs(), undisturbed)
    assert training.history().epochs[: len(saved)] == saved


def test_a_lost_node_s_shards_are_in_the_checkpoint(breaking, submit):
    """Half of every parameter was on that node, and nowhere else."""
    whole, training = submit(breaking, SHARDED, SMALL_VIT), submit(breaking, SHARDED, SMALL_VIT)
    training.underway()
    saved = lose_a_node(training)
    assert checkpoint.load(training.folder)["shards"] in checkpoint.SHARDS
    undisturbed = whole.history()
    assert whole.job_field("Restarts") == "0", whole.log
    carried_on(training, saved, undisturbed)


def _kill_in_the_middle_of_writing(training: Training) -> None:
    """Kill the node of rank 0 when a part of its checkpoint is written.

    A pipe stands where the file is written to, so that the rank stops when the pipe is full.
    """
    writer, node = training.rank(0), training.cluster.pid(training.node(0))
    pipe = (training.folder / checkpoint.NAME).with_suffix(".unfinished")

    def laid() -> bool:
        with contextlib.suppress(FileExistsError):  # it is writing just now
            os.mkfifo(pipe)
            return True
        return False

    until(laid, "a moment without a write")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        arrived, _, _ = select.select([reader], [], [], PATIENCE)
        assert arrived, "it never wrote"
        os.kill(node, signal.SIGKILL)
        until(lambda: not writer.is_running(), "the writer to end")
    finally:
        pipe.unlink()
        os.close(reader)
