"""Commands on a login node: typed where a SLURM answers, shown as recorded where none does."""

import json

import pytest

from hpml.cluster import queue
from hpml.errors import UserError
from hpml.modules.m00_your_machine.lecture.terminal import RECORDING, Terminal

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
