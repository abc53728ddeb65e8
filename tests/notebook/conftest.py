"""A real IPython shell with the course's magics."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from hpml.notebook import kept_ranks


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("HPML_HOME", str(tmp_path_factory.mktemp("home")))
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "hpml")
    yield shell
    InteractiveShell.clear_instance()
    patch.undo()


@pytest.fixture
def run(shell, capsys):
    """Run a cell; gives what it printed and the exception it ended with, if any. No ranks are kept
    longer than the test."""

    def run(cell):
        capsys.readouterr()
        result = shell.run_cell(cell)
        return capsys.readouterr().out, result.error_in_exec or result.error_before_exec

    yield run
    kept_ranks.stop_all()
