"""The exercise job_script, graded by submitting: its solution, and what only SLURM can see."""

import json

import pytest

from hpml.paths import CHECKOUT

pytestmark = [
    pytest.mark.measures,  # a daemon
    pytest.mark.xdist_group("cluster"),
]


def test_the_solution_runs_and_each_wrong_answer_is_caught(cluster):
    before = {*(CHECKOUT / "build" / "jobs").glob("*")}
    proved = cluster.run(
        *("python", "-m", "hpml", "course", "check", "job_script", "--json"), timeout=240
    )
    assert proved.returncode == 0, proved.stdout + proved.stderr
    rows = {row["name"]: row for row in json.loads(proved.stdout)["rows"]}
    assert rows["00_your_machine.ipynb"]["good"]
    assert [row["shows"] for row in rows.values() if row["part"] == "solution"] == [
        "6 of 6 points at world sizes 1"
    ]
    seen = {name: rows[name]["shows"] for name in ("no_srun", "srun_in_a_loop", "hidden_failure")}
    assert seen == {
        "no_srun": "failed, hint srun",
        "srun_in_a_loop": "failed, hint once",
        "hidden_failure": "failed, hint failed",
    }
    assert {*(CHECKOUT / "build" / "jobs").glob("*")} == before
    assert cluster.output("squeue", "--noheader") == []


ANSWER = '''%%answer job_script
def job_script(name, nodes, tasks_per_node, cpus_per_task, minutes, parts, command):
    return f"""#!/bin/bash
#SBATCH -N {nodes} --ntasks-per-node={tasks_per_node} -c {cpus_per_task} -t {minutes}
#SBATCH -a 0-{parts - 1} -o {name}-%A_%a.log OPTION
srun {command}
"""
'''


@pytest.mark.parametrize(
    ("option", "status", "message"),
    [
        ("--mem-per-cpu=1M", "passed", ""),
        ("--partition=nope", "failed", "sbatch refused it: sbatch: error: "),
        ("--hold", "not gradable", "the job was PENDING (JobHeldUser) for 3 s"),
    ],
)
def test_slurms_message_about_a_script_is_reported(cluster, option, status, message):
    script = (
        "import sys, json; from hpml.checks import judge\n"
        "from hpml.modules.m00_your_machine.checks import _slurm_job as slurm_job\n"
        "slurm_job.PATIENCE = 30.0 if 'hold' not in sys.argv[1] else 3.0\n"
        "print(json.dumps(judge('job_script', sys.argv[1]).record()))"
    )
    ran = cluster.run("python", "-c", script, ANSWER.replace("OPTION", option), timeout=120)
    assert ran.returncode == 0, ran.stderr
    verdict = json.loads(ran.stdout)
    assert verdict["status"] == status, verdict
    assert verdict["claims"][-1]["message"].startswith(message)
    assert cluster.output("squeue", "--noheader") == []  # cancelled
