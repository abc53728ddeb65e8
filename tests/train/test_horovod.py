"""The training script with Horovod: DDP's weights step for step, and any launcher starts it."""

import os
import subprocess
import sys

import cloudpickle
import pytest
import torch

from hpml.distributed_environment import ProcessInfo
from hpml.errors import UserError
from hpml.ranks import flavour, launch
from hpml.ranks.parent import warm
from hpml.train import Run, backends, requests, shards, train
from hpml.train.config import TrainConfig, parse
from hpml.train.history import read_history
from hpml.train.totals import Totals

WHY = flavour.missing("horovod")
pytestmark = [
    pytest.mark.skipif(WHY is not None, reason=str(WHY)),
    pytest.mark.xdist_group("horovod"),
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])

CPU = torch.device("cpu")
LIMIT = 240.0  # seconds that any process here may take
SHORT = (
    "--epochs 1 --samples 66 --test-samples 33 --batch-size 8 --widths 8,8 --threads 1 "
    "--precision fp32 --early-share 0 --no-progress"
).split()


@pytest.fixture(scope="module", autouse=True)
def one_server():
    """Horovod's, for DDP's ranks too: to start another takes as long as all these launches."""
    with warm.using(warm.server("horovod")):
        yield


def small_config(**changes) -> TrainConfig:
    small = {"epochs": 1, "samples": 96, "test_samples": 20, "batch_size": 8, "widths": (8, 16)}
    fixed = {"precision": "fp32", "progress": False, "early_share": 0.0, "momentum": 0.9}
    return TrainConfig(**(small | fixed | changes))


def steps(rank):
    """Weights after each of some steps, and the test's result; on either back end."""
    from hpml.data import load

    run = Run(small_config(), load(None), CPU)
    order, totals, found = shards.epoch_order(run.images, seed=0, epoch=0), Totals(), []
    for index in shards.split(shards.training_shard(order, run.rank, run.world_size), 8)[:4]:
        run.step(index, totals)
        found.append(torch.cat([p.detach().flatten() for p in run.network.parameters()]))
    return [type(run.backend).__name__, found, list(run.test()), totals.over_ranks()]


def test_weights_are_those_of_ddp_step_for_step():
    ddp = launch(steps, 2, inputs=[0, 1])
    horovod = launch(steps, 2, inputs=[0, 1], flavour="horovod")
    for evidence, name in ((ddp, "Ddp"), (horovod, "Horovod")):
        assert evidence.diagnosis is None, evidence.diagnosis.sentence
        assert [value[0] for value in evidence.values] == [name, name]
    for mine, theirs in zip(horovod.values, ddp.values, strict=True):
        assert len(mine[1]) == 4
        assert not torch.equal(mine[1][0], mine[1][3])
        for one, other in zip(mine[1], theirs[1], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        assert mine[2] == pytest.approx(theirs[2], rel=1e-4)
        torch.testing.assert_close(mine[3], theirs[3], rtol=1e-4, atol=1e-4)
    # Ranks with the same weights throughout, though each saw other images
    for one, other in zip(horovod.values[0][1], horovod.values[1][1], strict=True):
        assert torch.equal(one, other)
    # By DistributedOptimizer's hooks: each gradient once in each step
    averaged = [call for call in horovod.ranks[0].calls if call.detail == "average"]
    assert len(averaged) == 4 * len({call.tensor for call in averaged}) > 4


def test_a_run_that_horovods_ranks_stop_is_resumed(tmp_path):
    def drive(folder):
        from hpml.data import load

        config = small_config(checkpoint=folder, resume=True, epochs=4)
        asked = requests.Requests()
        if backends.there().rank == 1:
            asked.note(15)
        stopped = Run(config, load(None), CPU).train(asked)
        resumed = Run(config, load(None), CPU).train(requests.Requests())
        return [stopped.stopped, resumed.stopped, len(resumed.epochs)]

    evidence = launch(drive, 2, inputs=[str(tmp_path)] * 2, flavour="horovod")
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    assert evidence.values == ([True, False, 4],) * 2


def start(command: list[str], **environment: str) -> subprocess.Popen:
    own = os.environ | {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"} | environment
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, env=own, start_new_session=True, **pipes)


def ends(*processes: subprocess.Popen) -> str:
    """What they said. Fails where one does not end well, and leaves none behind."""
    try:
        said = [process.communicate(timeout=LIMIT)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait(10)
    assert [process.returncode for process in processes] == [0] * len(processes), said
    return "".join(said)


@pytest.fixture(scope="module")
def expected():
    """Losses of the same run with DDP."""

    def drive(options):
        history = train(parse(options))
        return [history.world_size, history.epochs[0].train_loss, history.epochs[0].test_loss]

    evidence = launch(drive, 2, inputs=[SHORT] * 2)
    assert evidence.diagnosis is None, evidence.diagnosis.sentence
    return evidence.values[0]


def history_of(launcher: str, folder, *options: str):
    out = folder / "history.json"
    script = [sys.executable, "-m", "hpml.train", *SHORT, *options, "--out", str(out)]
    bin_ = os.path.dirname(sys.executable)
    if launcher == "horovodrun":
        horovodrun = [sys.executable, os.path.join(bin_, "horovodrun"), "--gloo", "-np", "2"]
        # To see whether Horovod has Gloo it imports TensorFlow, twice, or else PyTorch, which is
        # done sooner.
        (folder / "tensorflow.py").write_text("raise ImportError")
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
        said = ends(start([*horovodrun, *script], PYTHONPATH=path.rstrip(os.pathsep)))
    elif launcher == "mpirun":
        mpirun = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-np", "2"]
        said = ends(start([*mpirun, *script]))
    else:
        # What srun sets in its tasks; rank 0's node is this one
        step = {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_NODELIST": "localhost"}
        step["SLURM_JOB_ID"] = str(os.getpid())
        ranks = [{"SLURM_PROCID": rank, "SLURM_LOCALID": rank} for rank in "01"]
        said = ends(*(start(script, **step, **rank) for rank in ranks))
    assert said.count("2 ranks × 1 thread") == 1, said
    return read_history(out)


@pytest.mark.parametrize("launcher", ["horovodrun", "mpirun", "srun"])
def test_the_same_script_runs_under_each_launcher(launcher, tmp_path, expected, request):
    """horovodrun and mpirun need not be told that it is Horovod; srun's tasks could be DDP's."""
    if launcher == "mpirun":
        request.getfixturevalue("horovod_over_mpi")
    options = ["--backend", "horovod"] if launcher == "srun" else []
    history = history_of(launcher, tmp_path, *options)
    found = [history.world_size, history.epochs[0].train_loss, history.epochs[0].test_loss]
    assert found == pytest.approx(expected, rel=1e-4)


def test_ddp_has_no_place_to_meet_under_horovodrun():
    process = ProcessInfo(0, 2, 0, launcher="horovodrun")
    with (
        pytest.raises(UserError, match="start with torchrun or srun, or leave --backend out"),
        backends.joined("ddp", process, CPU),
    ):
        pass


def test_horovod_that_is_not_installed_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr(flavour, "missing", lambda wanted: f"{wanted} is not installed")
    with (
        pytest.raises(UserError, match="--backend horovod: horovod is not installed"),
        backends.joined("horovod", ProcessInfo(), CPU),
    ):
        pass
