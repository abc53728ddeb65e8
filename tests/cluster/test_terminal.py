"""Commands on a login node: typed where a SLURM answers, shown as recorded where none does."""

import json
import re
import sys

import pytest

from hpml.cluster import queue
from hpml.cluster.terminal import RECORDING, Terminal
from hpml.errors import UserError
from hpml.paths import CHECKOUT

pytestmark = pytest.mark.measures  # a daemon

RECORDED = dict(json.loads(RECORDING.read_text(encoding="utf-8")))


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine without SLURM."""
    monkeypatch.setenv("HPML_HOME", str(tmp_path))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setattr(queue.needs, "other_slurm", lambda: None)


def test_without_a_slurm_recorded_output_is_shown_and_marked(nowhere, capsys):
    terminal = Terminal()
    assert "no SLURM answers here" in terminal.missing
    for _ in range(2):  # cells are run again
        terminal.type("sinfo")
    output = capsys.readouterr().out
    assert output.count("$ sinfo   # recorded on the virtual cluster\nPARTITION AVAIL") == 2
    assert terminal.output == RECORDED["sinfo"]


def test_a_recorded_job_has_its_recorded_number(nowhere):
    terminal = Terminal()
    jobs = [command for command, output in RECORDED.items() if output.startswith("Submitted")]
    numbers = [terminal.submit(command) for command in jobs]
    assert numbers[:2] == ["1", "2"]
    terminal.wait("1")


def test_what_was_never_recorded_is_not_made_up(nowhere):
    with pytest.raises(UserError, match="nothing was recorded of 'date'"):
        Terminal().type("date")
    with pytest.raises(UserError, match="no job came of 'sinfo': PARTITION"):
        Terminal().submit("sinfo")


SCRIPT = """
from hpml.cluster.terminal import Terminal
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
    recorded = RECORDED["sinfo"].splitlines()[0]
    assert ran.stdout.startswith(f"$ sinfo\n{recorded}\n")
    last = ran.stdout[ran.stdout.index("$ cat it-") :].split("\n", 1)[1]
    assert re.fullmatch(r"n\d\nn\d\n\n", last)
    for log in (CHECKOUT / "build" / "jobs" / "terminal").glob("it-*.log"):
        log.unlink()
