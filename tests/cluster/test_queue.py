"""Submitting and following, with stand-ins for SLURM's commands."""

import os
import sys
from dataclasses import replace

import pytest

from hpml.cluster import queue
from hpml.cluster.folder import folder
from hpml.cluster.shape import Shape
from hpml.errors import UserError

# Each call of squeue takes the next file of its answers; the last one is given again and again.
SQUEUE = """
cd "$ANSWERS"
first=$(ls | head -1)
cat "$first"
[ "$(ls | wc -l)" = 1 ] || rm "$first"
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HPML_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SLURM_CONF", raising=False)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """`slurm(answers of squeue, name=script)`: a SLURM of these stand-ins."""
    stubs, answers = tmp_path / "bin", tmp_path / "answers"
    stubs.mkdir()
    answers.mkdir()
    monkeypatch.setenv("PATH", f"{stubs}:{os.defpath}")
    monkeypatch.setenv("ANSWERS", str(answers))
    monkeypatch.setenv("LOG", str(tmp_path / "log"))

    def of(*states: str, **scripts: str) -> queue.Slurm:
        for number, text in enumerate(states):
            (answers / f"{number:03}").write_text(text)
        for name, script in {"squeue": SQUEUE, "scontrol": "exit 1", **scripts}.items():
            (stubs / name).write_text(f"#!/bin/sh\n{script}\n")
            (stubs / name).chmod(0o755)
        return queue.Slurm({})

    return of


@pytest.fixture
def following(monkeypatch):
    """`following(slurm)`: what is reported of job 7, and its last state. No time passes."""
    clock = iter(range(0, 10**6, 10))
    monkeypatch.setattr(queue.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(queue.time, "sleep", lambda seconds: None)

    def run(slurm: queue.Slurm) -> tuple[list[str], str]:
        reported = []
        return reported, queue.follow(slurm, "7", reported.append)

    return run


def test_a_job_is_followed_from_waiting_to_its_end(slurm, following):
    states = ("PENDING|Resources", "PENDING|Resources", "RUNNING|None", "COMPLETED|None")
    reported, state = following(slurm(*states))
    assert state == "COMPLETED"
    assert reported == ["job 7: PENDING (Resources)", "job 7: RUNNING", "job 7: COMPLETED"]


def test_a_job_that_is_requeued_has_not_ended(slurm, following):
    states = ("RUNNING|None", "REQUEUED|None", "PENDING|BeginTime", "FAILED|NonZeroExitCode")
    reported, state = following(slurm(*states))
    assert state == "FAILED"
    assert len(reported) == 4


def test_the_log_is_shown_once_each_byte_to_its_end(slurm, following, tmp_path, capfd):
    log = tmp_path / "log"
    grows = f'echo "line $(ls | wc -l)" >>"$LOG"\n{SQUEUE}'
    with_log = 'printf "JobId=7\\n   StdOut=%s\\n   Power=\\n" "$LOG"'
    states = ("RUNNING|None", "RUNNING|None", "COMPLETED|None")
    following(slurm(*states, squeue=f"cd $ANSWERS\n{grows}", scontrol=with_log))
    assert capfd.readouterr().out == log.read_text()
    assert log.read_text().count("\n") == 3


def test_a_job_array_has_ended_when_its_last_part_has(slurm, following):
    reported, state = following(
        slurm("RUNNING|None\nPENDING|Resources", "COMPLETED|None\nRUNNING|None", "COMPLETED|None")
    )
    assert state == "COMPLETED"
    assert reported[0] == "job 7: RUNNING, PENDING (Resources)"


def test_one_failed_part_is_what_an_array_ends_with(slurm, following):
    _, state = following(slurm("COMPLETED|None\nTIMEOUT|TimeLimit\nCOMPLETED|None"))
    assert state == "TIMEOUT"


def test_a_job_that_slurm_has_forgotten_is_looked_up_in_the_accounts(slurm, following):
    forgotten = "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1"
    accounts = "echo CANCELLED by 0"
    assert following(slurm(squeue=forgotten, sacct=accounts))[1] == "CANCELLED"
    assert following(slurm(squeue=forgotten, sacct="exit 1"))[1] == "UNKNOWN"


def test_a_slurm_that_falls_silent_is_a_user_error_with_its_words(slurm, following):
    with pytest.raises(UserError, match="job 7 cannot be followed any more: no route to host"):
        following(slurm(squeue="echo no route to host >&2; exit 1"))


def test_submit_returns_the_number_and_has_the_job_use_this_python(slurm, tmp_path, monkeypatch):
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(sys, "base_prefix", "/elsewhere")
    script = 'echo "$* $VIRTUAL_ENV $SBATCH_ACCOUNT $PWD" >"$LOG"; echo Submitted batch job 12'
    words = ["sbatch", "--time=5", "job.slurm"]
    number = queue.submit(slurm(sbatch=script), words, {"SBATCH_ACCOUNT": "abc"}, tmp_path)
    assert number == "12"
    seen = (tmp_path / "log").read_text().split()
    assert seen == ["--time=5", "job.slurm", sys.prefix, "abc", str(tmp_path)]


def test_what_sbatch_refuses_is_a_user_error_in_its_words(slurm, tmp_path):
    refuses = "echo sbatch: error: first >&2; echo sbatch: error: no such partition >&2; exit 1"
    with pytest.raises(UserError, match=r"^sbatch: error: no such partition$"):
        queue.submit(slurm(sbatch=refuses), ["sbatch", "job.slurm"], {}, tmp_path)


def test_gpus_are_seen_where_a_node_has_some(slurm):
    assert not slurm(sinfo="printf '(null)\\n'").gpus()
    assert slurm(sinfo="printf '(null)\\ngpu:a100:4(S:0-1)\\n'").gpus()
    has_four = slurm(sinfo="printf 'shard:8,gpu:4\\n'")
    assert has_four.gpus()
    assert not replace(has_four, shape=Shape(gpus=4)).gpus()  # what ours declare is not there


def test_without_any_slurm_the_remedy_is_named(slurm):
    slurm()
    with pytest.raises(UserError, match=r"no SLURM answers here: .* \./hpml cluster up"):
        queue.find()


def test_the_machines_own_slurm_is_used_as_it_is(slurm):
    slurm(scontrol="echo ClusterName = snellius")
    assert queue.find() == queue.Slurm({})


def test_a_cluster_that_is_broken_is_not_submitted_to(slurm):
    slurm(scontrol="echo ClusterName = snellius")
    folder().path.mkdir()
    with pytest.raises(UserError, match=r"\./hpml cluster down removes it"):
        queue.find()
