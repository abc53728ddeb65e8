"""The course's kernel, as a JupyterLab of others finds and starts it."""

import json
from pathlib import Path

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import start_new_kernel

from hpml.course import hub_kernel
from hpml.errors import UserError
from hpml.paths import CHECKOUT


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Path:
    """A user's folder for kernels, and an environment that knows nothing of the course."""
    for name in ("PYTHONPATH", "HPML_HOME", "HPML_STANDING", "JUPYTER_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(client, cell: str) -> str:
    said = []
    reply = client.execute_interactive(
        cell, timeout=240, output_hook=lambda message: said.append(message["content"])
    )
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(content.get("text", "") for content in said)


def test_a_hub_finds_it_and_its_cells_have_the_course(hub):
    assert hub_kernel.install() == hub / "data" / "kernels" / "hpml"
    assert KernelSpecManager().get_kernel_spec("hpml").display_name == hub_kernel.DISPLAYED
    manager, client = start_new_kernel(startup_timeout=240, kernel_name="hpml")
    try:
        assert printed(client, "import hpml.paths as p; print(p.CHECKOUT)") == f"{CHECKOUT}\n"
        ranks = printed(client, "%%ranks 2\nimport torch.distributed as d\nprint(d.get_rank())")
        assert sorted(ranks.split("\n")[:2]) == ["[0] 0", "[1] 1"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_below_a_prefix_each_user_has_a_folder_of_their_own(hub):
    where = hub_kernel.install(hub / "local")
    assert where == hub / "local" / "share" / "jupyter" / "kernels" / "hpml"
    variables = json.loads((where / "kernel.json").read_text())["env"]
    assert (variables["HPML_HOME"], variables["PYTHONPATH"]) == ("~/.hpml", f"{CHECKOUT}/src")


def test_one_that_is_there_is_replaced(hub):
    (hub_kernel.install() / "kernel.json").write_text("{}")
    where = hub_kernel.install()
    assert json.loads((where / "kernel.json").read_text())["display_name"] == hub_kernel.DISPLAYED


def test_a_prefix_that_cannot_be_written_is_named(hub):
    (hub / "file").write_text("")
    with pytest.raises(UserError, match=r"kernel: .*file.*: Not a directory"):
        hub_kernel.install(hub / "file")
