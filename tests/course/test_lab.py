"""The kernel that ./hpml lab starts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat

from hpml.course import lab

RUN = """
import sys, nbclient, nbformat
notebook = nbformat.read(sys.stdin, as_version=4)
nbclient.NotebookClient(notebook, kernel_name="python3", timeout=60, allow_errors=True).execute()
nbformat.write(notebook, sys.stdout)
"""


def outputs(tmp_path, *cells: str) -> list[str]:
    """What each cell prints in a kernel that was just started, errors included."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    ended = subprocess.run(
        [sys.executable, "-c", RUN],
        env=lab.environment(os.environ, tmp_path, None),
        input=nbformat.writes(notebook),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    executed = nbformat.reads(ended.stdout, as_version=4)
    return [
        "".join(o.get("text", "") + "".join(o.get("traceback", [])) for o in cell.outputs)
        for cell in executed.cells
    ]


def test_a_kernel_that_was_restarted_says_which_cell_to_run_again(tmp_path):
    checked, answered, loaded = outputs(
        tmp_path,
        'check("hello_ranks")',
        "%%answer hello_ranks\ndef hello(number):\n    return number",
        "%load_ext hpml",
    )
    assert "run the cell that begins with %%answer hello_ranks" in checked
    assert answered == ""
    assert loaded == ""  # not "The hpml extension is already loaded"


def test_a_persons_own_kernels_come_after_the_courses(tmp_path):
    given = {"JUPYTER_PATH": "/somewhere", "JUPYTER_CONFIG_PATH": ""}
    environment = lab.environment(given, tmp_path, None)
    assert environment["JUPYTER_PATH"] == f"{lab.SETTINGS}{os.pathsep}/somewhere"
    assert environment["JUPYTER_CONFIG_PATH"] == str(lab.SETTINGS)


def test_line_numbers_are_on_and_every_setting_is_one_that_jupyterlab_has():
    overrides = json.loads(
        (lab.SETTINGS / "labconfig" / "default_setting_overrides.json").read_text()
    )
    cells = overrides["@jupyterlab/notebook-extension:tracker"]["codeCellConfig"]
    assert cells["lineNumbers"] is True
    for plugin, settings in overrides.items():
        package, _, name = plugin.partition(":")
        schema = Path(sys.prefix, "share/jupyter/lab/schemas", package, f"{name}.json")
        known = json.loads(schema.read_text(encoding="utf-8"))["properties"]
        assert settings.keys() <= known.keys()


def test_every_argument_is_one_that_jupyterlab_has():
    """An unknown one is a warning in the terminal, and does nothing."""
    from jupyter_server.serverapp import ServerApp
    from jupyterlab.labapp import LabApp

    known = {each.__name__: each.class_trait_names(config=True) for each in (LabApp, ServerApp)}
    names = [
        word.removeprefix("--").split("=")[0] for word in lab.command(Path("notebooks/a.ipynb"))
    ]
    settings = [name.split(".") for name in names if name.startswith(tuple(known))]
    assert ["LabApp", "custom_css"] in settings
    assert [name for owner, name in settings if name not in known[owner]] == []
    assert (lab.SETTINGS / "custom" / "custom.css").is_file()
