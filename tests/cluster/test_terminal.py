"""Commands of a lecture, typed on a login node where a SLURM answers."""

import json
import re
import sys

import pytest

from hpml.modules.m00_your_machine.lecture.terminal import RECORDING
from hpml.paths import CHECKOUT

pytestmark = pytest.mark.measures  # a daemon

SCRIPT = """
from hpml.modules.m00_your_machine.lecture.terminal import Terminal
terminal = Terminal()
assert not terminal.missing, terminal.missing
terminal.type("sinfo")
job = terminal.submit("sbatch --array=0-1 --output=it-%A_%a.log --wrap='sleep 1; hostname'")
terminal.wait(job)
terminal.type(f"cat it-{job}_*.log; squeue --noheader --jobs={job} 2> /dev/null")
"""


@pytest.mark.xdist_group("cluster")
def test_on_a_cluster_commands_are_run(cluster):
    ran = cluster.run(sys.executable, "-c", SCRIPT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    recorded = dict(json.loads(RECORDING.read_text(encoding="utf-8")))["sinfo"].splitlines()[0]
    assert ran.stdout.startswith(f"$ sinfo\n{recorded}\n")
    last = ran.stdout[ran.stdout.index("$ cat it-") :].split("\n", 1)[1]
    assert re.fullmatch(r"n\d\nn\d\n\n", last)
    for log in (CHECKOUT / "build" / "jobs" / "terminal").glob("it-*.log"):
        log.unlink()
