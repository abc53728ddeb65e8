"""Control groups: what a grader that was killed left behind."""

import os
import subprocess
import sys

from hpml.machine import control_group as cgroup


def test_groups_of_graders_that_are_gone_are_taken_away(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(timeout=60)
    here = f"{cgroup.PREFIX}{os.stat('/proc/self/ns/pid').st_ino}-"
    left = tmp_path / f"{here}{gone.pid}-a"
    in_use = tmp_path / f"{here}{gone.pid}-b"
    mine = tmp_path / f"{here}{os.getpid()}-c"
    another = tmp_path / f"{cgroup.PREFIX}of-somebody"
    # Of a grader whose process ids mean nothing here
    elsewhere = tmp_path / f"{cgroup.PREFIX}1-{gone.pid}-d"
    for folder in (left, in_use / "deeper", mine, another, elsewhere):
        folder.mkdir(parents=True)

    cgroup._forget_abandoned(tmp_path)

    assert not left.exists()
    assert all(folder.exists() for folder in (in_use, mine, another, elsewhere))
