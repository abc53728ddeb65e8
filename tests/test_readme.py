"""README.md: its table is the day's, its links lead somewhere, and its commands run."""

import dataclasses
import os
import re
import shlex
import subprocess

import pytest

from hpml.course import build, readme, schedule
from hpml.errors import UserError
from hpml.paths import CHECKOUT

TEXT = (CHECKOUT / "README.md").read_text(encoding="utf-8")
SOLUTIONS = "solutions/06_torch_distributed.py"

# How each command of README.md is run: here, with what is put in place of its arguments and what it
# must say; or, where that takes minutes or a browser, by the test that is named.
RUN_HERE = {
    "./hpml doctor": ("./hpml doctor", "cores"),
    "./hpml list": ("./hpml list", "shard_sampler"),
    "./hpml hint ddp": ("./hpml hint ddp", "buckets"),
    "./hpml check exercises/06_torch_distributed.py": (
        f"./hpml check {SOLUTIONS}",
        "is done: 85 points",
    ),
    "./hpml build --check": ("./hpml build --check", "Everything is as it would be made"),
    "./hpml predict --model resnet50 --gpu v100 --per-node 8 --network 25gbit --ranks 8-512": (
        "./hpml predict --model resnet50 --gpu v100 --per-node 8 --network 25gbit --ranks 8-512",
        "512",
    ),
    "./hpml train --help": ("./hpml train --help", "--lr-rule"),
    "./hpml test -k ranks": (
        "./hpml test -k ranks --collect-only -q tests/ranks",
        "test_launch.py",
    ),
}
RUN_BY = {
    "./hpml tensorboard FOLDER": "tests/tensorboard/test_command.py",
    "./hpml run": "tests/course/test_run.py",
    "./hpml test": "tests/cli/test_commands.py",
    "./hpml data": "tests/data/test_command.py",
    "./hpml horovod": "tests/horovod/test_install.py",
    "./hpml lab": "tests/cli/test_run_command.py",
    "./hpml check ddp": "tests/cli/test_learn.py",
    "./hpml watch": "tests/cli/test_learn.py",
    "./hpml restore exercises/06_torch_distributed.py": "tests/course/test_restore.py",
    "./hpml course check": "tests/test_course.py",
    "./hpml course check --page build/wrong_answers.html": "tests/course/test_wrong_page.py",
    "./hpml course core": "tests/course/test_core_path.py",
    "./hpml course conclusions": "tests/course/test_conclusions.py",
    "./hpml course check count_messages": "tests/course/test_new_exercise.py",
    "./hpml course new 06 count_messages": "tests/course/test_new_exercise.py",
    "./hpml release": "tests/course/test_release.py",
    "./hpml grade submissions": "tests/cli/test_grade.py",
    "./hpml grade submissions --core": "tests/cli/test_grade.py",
    "./hpml run-sheet": "tests/course/test_run_sheet.py",
    "./hpml bench attacks": "tests/grading/test_attacks.py",
    "./hpml bench grade": "tests/bench/test_grade.py",
    "./hpml bench check": "tests/bench/test_check.py",
    "./hpml bench flips": "tests/bench/test_flips.py",
    "./hpml bench network": "tests/bench/test_network.py",
    "./hpml bench allreduce": "tests/bench/test_allreduce.py",
    "./hpml bench predict": "tests/bench/test_predict.py",
    "./hpml bench shard": "tests/bench/test_shard.py",
    "./hpml bench fusion": "tests/bench/test_fusion.py",
    "./hpml bench frameworks": "tests/bench/test_frameworks.py",
    "./hpml bench io": "tests/bench/test_io.py",
    "./hpml bench trace": "tests/bench/test_trace.py",
    "./hpml train --model vit": "tests/train/test_run.py",
    "./hpml race": "tests/train/race/test_start.py",
    "./hpml race --loader batch": "tests/cli/test_race.py",
    "./hpml race --from-best --ranks 2": "tests/cli/test_race.py",
    "./hpml race --show": "tests/cli/test_race.py",
    "./hpml bench train": "tests/bench/test_train.py",
    "./hpml bench train --against": "tests/bench/test_train_against.py",
    "./hpml build": "tests/course/test_build.py",
    "./hpml build 06": "tests/course/test_build.py",
    "./hpml cluster up": "tests/cluster/test_cluster.py",
    "./hpml cluster down": "tests/cluster/test_cluster.py",
    "./hpml submit 06 --nodes 2": "tests/cluster/test_jobs.py",
    "sbatch slurm/06_one_node.slurm": "tests/test_slurm.py",
}


def commands() -> set[str]:
    """Every command of the page: lines of code blocks, and inline code that begins like one."""
    lines = re.findall(r"^(?:    )?(\./hpml [^#\n]*)", TEXT, re.M)
    inline = re.findall(r"`((?:\./hpml|sbatch) [^`]+)`", TEXT)
    return {line.strip() for line in [*lines, *inline]}


def test_the_day_is_that_of_course_toml():
    assert readme.with_schedule(TEXT, schedule.load()) == TEXT


def test_a_page_without_the_marks_is_refused():
    with pytest.raises(UserError, match=r"README\.md: the marks"):
        readme.with_schedule("no marks", schedule.load())


def test_every_link_and_picture_leads_to_a_file_of_the_repository():
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT)
    assert len(targets) >= 5
    missing = [target for target in targets if not (CHECKOUT / target).is_file()]
    assert not missing


def test_every_command_is_run_by_some_test():
    assert commands() == set(RUN_HERE) | set(RUN_BY)
    for command, file in RUN_BY.items():
        assert (CHECKOUT / file).is_file(), f"{command}: {file} is not there"


@pytest.mark.parametrize("command", RUN_HERE)
def test_the_command_does_what_the_page_says(command, tmp_path):
    words, says = RUN_HERE[command]
    environment = {**os.environ, "HPML_HOME": str(tmp_path), "COLUMNS": "200"}
    ended = subprocess.run(
        shlex.split(words),
        cwd=CHECKOUT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert says in ended.stdout


def test_build_writes_the_table_and_its_check_notices_an_old_one(tmp_path):
    course = dataclasses.replace(schedule.load(), modules=(), root=tmp_path)
    page = tmp_path / "README.md"
    page.write_text(TEXT)
    (finding,) = build.check(course, ())
    assert str(finding) == "README.md: its table is not course.toml's: run ./hpml build"
    assert build.build(course, ()) == []
    assert page.read_text() == readme.with_schedule(TEXT, course) != TEXT
