"""Control groups: what a grader that was killed left behind."""

import os
import subprocess
import sys

from hpml.grading import cgroup


def test_groups_of_graders_that_are_gone_are_taken_away(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(timeout=60)
    left = tmp_path / f"{cgroup.PREFIX}{gone.pid}-a"
    in_use = tmp_path / f"{cgroup.PREFIX}{gone.pid}-b"
    mine = tmp_path / f"{cgroup.PREFIX}{os.getpid()}-c"
    another = tmp_path / f"{cgroup.PREFIX}of-somebody"
    for folder in (left, in_use / "deeper", mine, another):
        folder.mkdir(parents=True)

    cgroup._forget_abandoned(tmp_path)

    assert not left.exists()
    assert all(folder.exists() for folder in (in_use, mine, another))
